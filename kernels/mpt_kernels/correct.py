"""Right answers: the first of a row's largest logits is the answer."""

import torch
from torch import Tensor


def is_top1_correct(logits: Tensor, target: Tensor) -> Tensor:
    """Tell for each row whether the first of its largest logits is the target's; never in a row with a NaN.

    Args:
        logits: (N, C), any float type. C may be 0.
        target: (N,) integer; a target outside 0..C-1 is never the answer.

    Returns:
        (N,) bool.

    Two logits tie: the first one is the answer.

    >>> is_top1_correct(torch.tensor([[1.0, 1.0], [1.0, 1.0]]), torch.tensor([0, 1])).tolist()
    [True, False]
    """
    if logits.shape[1] == 0:
        return torch.zeros_like(target, dtype=torch.bool)
    if logits.device.type == "cpu" and not torch.compiler.is_compiling():
        # A CPU's maximum is the first one, and a NaN where there is one; it takes a quarter of the
        # comparisons' time.
        largest, first = logits.max(dim=1)
        return (first == target) & (largest == largest)
    return is_unbeaten(logits, target)


def is_unbeaten(logits: Tensor, target: Tensor) -> Tensor:
    """Compute `is_top1_correct` by comparisons alone, where a maximum may be any of several equal ones."""
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
    """Count the valid rows that each model gets right: int64 "student", and "old" and "ref" where given."""
    valid = target != ignore_index
    answers = {"student": logits, "old": old_logits, "ref": ref_logits}
    return {
        name: (is_top1_correct(answer, target) & valid).sum()
        for name, answer in answers.items()
        if answer is not None
    }
