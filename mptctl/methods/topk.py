"""Logit matching on each teacher's largest logits, as ELODI's top-K variant has it."""

from __future__ import annotations

from torch import Tensor


def topk_lm_distance(student: Tensor, teacher: Tensor, top_k: int) -> Tensor:
    """Half the squared difference of the logits over the teacher's K largest ones, by the number of classes.

    Both sides are zero outside the K classes that the teacher holds largest, per sample; the mean is still over
    all classes (Zhao et al., TPAMI 2024, top-K distillation).

    Args:
        student: (N, C) logits.
        teacher: (N, C) logits.
        top_k: K, at most C are taken.

    Returns:
        (N,), one distance per sample; zeros where C is 0.

    Raises:
        ValueError: the shapes differ.
    """
    if student.shape != teacher.shape:
        raise ValueError(f"student {tuple(student.shape)} and teacher {tuple(teacher.shape)} differ in shape")
    num_classes = student.shape[1]
    largest = teacher.topk(min(top_k, num_classes), dim=1).indices
    difference = student.gather(1, largest) - teacher.gather(1, largest)
    return 0.5 * difference.square().sum(dim=1) / max(num_classes, 1)
