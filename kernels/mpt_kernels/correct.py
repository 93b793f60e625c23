"""Tells which rows are right: a row's prediction is the first of its largest logits."""

import torch
from torch import Tensor


def is_top1_correct(logits: Tensor, target: Tensor) -> Tensor:
    """Tell for each row whether the first of its largest logits is the target's; False in a row with a NaN.

    Args:
        logits: (N, C), any float type. C may be 0.
        target: (N,) integer; False for a target outside 0..C-1.

    Returns:
        (N,) bool.

    Two logits tie, and the first one is the prediction:

    >>> is_top1_correct(torch.tensor([[1.0, 1.0], [1.0, 1.0]]), torch.tensor([0, 1])).tolist()
    [True, False]
    """
    if logits.shape[1] == 0:
        return torch.zeros_like(target, dtype=torch.bool)
    if logits.device.type == "cpu" and not torch.compiler.is_compiling():
        # On a CPU `max` gives the first maximum, or a NaN if there is one, in a quarter of the time of
        # `is_unbeaten`.
        largest, first = logits.max(dim=1)
        return (first == target) & (largest == largest)
    return is_unbeaten(logits, target)


def is_unbeaten(logits: Tensor, target: Tensor) -> Tensor:
    """Compute `is_top1_correct` by comparisons, for devices whose `max` may give any of equal logits."""
    width = logits.shape[1]
    known = (target >= 0) & (target < width)
    column = torch.arange(width, device=logits.device)
    label = torch.where(known, target, 0).long().unsqueeze(1)
    own = logits.gather(1, label)
    unbeaten = torch.where(column < label, logits < own, logits <= own)
    return known & unbeaten.all(dim=1)


def count_correct(
    logits: Tensor, target: Tensor, old_logits: Tensor | None, ref_logits: Tensor | None, ignore_index: int
) -> dict[str, Tensor]:
    """Count the rows that each model gets right, ignored rows left out.

    Returns:
        int64 scalars by name: "student", and for each teacher that is given "old" or "ref".
    """
    valid = target != ignore_index
    models = {"student": logits, "old": old_logits, "ref": ref_logits}
    return {
        name: (is_top1_correct(of_model, target) & valid).sum()
        for name, of_model in models.items()
        if of_model is not None
    }
