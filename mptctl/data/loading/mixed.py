"""Mixes the pictures of a batch in pairs, and their labels, as the plan says."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mpt_kernels.types import LossSettings
from mptctl.data.augmentation.mixing import Pairs

# The label that adds nothing to a loss.
IGNORED = LossSettings(num_old=0).ignore_index


class Mixing(NamedTuple):
    """The second labels of pictures, and what the first ones weigh.

    others: (B,) int64 label of the partner; the ignored one where a picture has one label alone.
    weight: (B,) float32 of a picture's own label, 0..1; the partner's has the rest.
    """

    others: Tensor
    weight: Tensor


def mix_pictures(pictures: Tensor, pairs: Pairs) -> Tensor:
    """(2p, S, S, 3) normalised pictures, two of a pair side by side, mixed where they lie.

    Each pixel becomes w x + (1 - w) y of a picture x and its partner y: two products and a sum, each
    rounded by itself, so that no bit depends on the batch.
    """
    place = torch.arange(pictures.shape[1], device=pictures.device)
    kept, boxes = torch.from_numpy(pairs.kept), torch.from_numpy(pairs.boxes)
    if pictures.device.type == "cuda":
        kept, boxes = (x.pin_memory().to(pictures.device, non_blocking=True) for x in (kept, boxes))
    first_row, end_row, first_column, end_column = boxes[:, :, None].unbind(1)
    rows = (first_row <= place) & (place < end_row)
    columns = (first_column <= place) & (place < end_column)
    outside = ~(rows[:, :, None] & columns[:, None, :])
    # A number for each value, since what a product repeats along its last axis is slow.
    w = (outside * kept[:, None, None])[..., None].expand(-1, -1, -1, 3).reshape(len(kept), 1, -1)
    both = pictures.reshape(len(kept), 2, -1)
    others = both.flip(1).mul_(1 - w)
    return both.mul_(w).add_(others).reshape(pictures.shape)


def mix_labels(labels: Tensor, pairs: Pairs) -> tuple[Tensor, Mixing]:
    """Labels of pictures and of their partners, where each weighs something, and what the former weigh.

    Two equal labels are one of weight 1, so that the valid labels of a picture always differ.

    Args:
        labels: (2p,) int64, on the CPU.
        pairs: how their pictures are mixed.

    Returns:
        (2p,) own labels, the ignored one where the partner covers the whole picture; and the mixing.
    """
    others = labels.reshape(-1, 2).flip(1).reshape(-1)
    weight = torch.from_numpy(pairs.weight).repeat_interleave(2)
    weight = weight.where(others != labels, 1.0)
    return labels.where(weight > 0, IGNORED), Mixing(others.where(weight < 1, IGNORED), weight)
