"""Mixes the pictures of a batch in pairs, and their labels, as `Pairs` were drawn."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mpt_kernels.types import LossSettings
from mptctl.data.augmentation.mixing import Pairs
from mptctl.machine.device import copy_to_device

# The label that the losses ignore.
IGNORED = LossSettings(num_old=0).ignore_index


class Mixing(NamedTuple):
    """The second label of each picture of a mixed batch, and the weight of the first.

    Attributes:
        others: (B,) int64 label of the partner; `IGNORED` where a picture has only its own label.
        weight: (B,) float32 weight of the own label, 0 to 1; the partner's label has 1 - weight.
    """

    others: Tensor
    weight: Tensor


def mix_pictures(pictures: Tensor, pairs: Pairs) -> Tensor:
    """Mix the two pictures of each pair, in place.

    Each pixel becomes w x + (1 - w) y of a picture x and its partner y: two products and a sum, each
    rounded by itself, so that no bit depends on the batch.

    Args:
        pictures: (2p, S, S, 3) normalised; rows 2i and 2i + 1 are a pair.
        pairs: how each of the p pairs is mixed.

    Returns:
        The same tensor.
    """
    weights = _weights_of_own_pixels(pairs, pictures.shape[1], pictures.device)
    number = len(weights)
    # Expanded to all three colours, since a product that repeats one along its last axis is slow.
    w = weights[..., None].expand(-1, -1, -1, 3).reshape(number, 1, -1)  # (p, 1, 3 S S)
    own = pictures.reshape(number, 2, -1)  # (p, 2, 3 S S)
    partners = own.flip(1).mul_(1 - w)
    return own.mul_(w).add_(partners).reshape(pictures.shape)


def _weights_of_own_pixels(pairs: Pairs, side: int, device: torch.device) -> Tensor:
    """The (p, S, S) weights w of each pair: `Pairs.kept` outside its box, and 0 in it.

    Args:
        pairs: how each of the p pairs is mixed.
        side: rows, and columns, of a picture, S.
        device: where the weights are.
    """
    kept = copy_to_device(torch.from_numpy(pairs.kept), device)
    boxes = copy_to_device(torch.from_numpy(pairs.boxes), device)
    first_row, end_row, first_column, end_column = boxes.unsqueeze(2).unbind(1)  # (p, 1) each
    position = torch.arange(side, device=device)
    in_rows = (first_row <= position) & (position < end_row)  # (p, S)
    in_columns = (first_column <= position) & (position < end_column)  # (p, S)
    in_box = in_rows[:, :, None] & in_columns[:, None, :]  # (p, S, S)
    return ~in_box * kept[:, None, None]


def mix_labels(labels: Tensor, pairs: Pairs) -> tuple[Tensor, Mixing]:
    """Find the two labels of each mixed picture, and the weight of the first.

    A picture whose partner has the same label has that label alone, with weight 1.

    Args:
        labels: (2p,) int64, on the CPU; rows 2i and 2i + 1 are a pair.
        pairs: how the pictures are mixed.

    Returns:
        (2p,) own labels, `IGNORED` where the partner covers the whole picture; and the mixing.
    """
    own = labels.clone()
    partners = labels.reshape(-1, 2).flip(1).reshape(-1)
    weight = torch.from_numpy(pairs.weight).repeat_interleave(2)
    weight[own == partners] = 1.0
    own[weight == 0] = IGNORED
    partners[weight == 1] = IGNORED
    return own, Mixing(partners, weight)
