"""Rows of a classifier for new classes, from the features of a few pictures, and what holds them back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

# How far the constant stays from the next sample that it keeps, where there is room: more than rounding.
ROOM = 1e-4


def imprint(features: Sequence[Tensor], old_rows: Tensor) -> Tensor:
    """The direction of the mean of features of length 1, as long as old rows are on average (Qi et al., CVPR 2018).

    Args:
        features: of each new class, (pictures, D).
        old_rows: (C_old, D) weights of the classifier.

    Returns:
        (new classes, D).
    """
    means = torch.stack([F.normalize(each, dim=1).mean(dim=0) for each in features])
    rows: Tensor = F.normalize(means, dim=1) * old_rows.norm(dim=1).mean()
    return rows


def smallest_constant(lead: NDArray[np.float64], limit: float) -> float:
    """The smallest constant at which at most a part of the samples is lost: those whose lead is above it.

    Args:
        lead: (n,) of samples that were right, n > 0: the largest new logit minus the right one.
        limit: the part, 0 to below 1.
    """
    falling = np.sort(lead)[::-1]
    constant = float(falling[int(limit * len(lead) + 1e-9)])
    above = falling[falling > constant]
    # The same samples are lost, and none of them by rounding.
    room = ROOM * (1 + abs(constant))
    return constant + (min(room, float(above[-1] - constant) / 2) if len(above) else room)
