"""The terms of our methods, row by row: biased cross-entropy and focal distillation, and their variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from mpt_kernels.correct import is_top1_correct
from mpt_kernels.reference import lm_distance, mpt_rows
from mpt_kernels.types import LossSettings, RowLosses
from mptctl.names import Gate

# The function that makes a method: (N, C) logits of the student, (N,) labels, (N, C_old) logits of the old
# model, (N, C) of the reference, None for a teacher that is not needed, and settings -> (N,) losses by term.
TermsFunction = Callable[[Tensor, Tensor, Tensor | None, Tensor | None, LossSettings], Mapping[str, Tensor]]
# (N, C) logits and (N,) labels 0..C-1 -> (N,), one loss per row.
RowCriterion = Callable[[Tensor, Tensor], Tensor]
# (N, C) logits of the student, (N, C) logits of a teacher -> (N,) distances, one a sample.
DistanceFunction = Callable[[Tensor, Tensor], Tensor]


def mpt_terms(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    settings: LossSettings,
    criterion: RowCriterion | None = None,
    distance: DistanceFunction | None = None,
    gate: Gate = "none",
) -> dict[str, Tensor]:
    """Compute cross-entropy with a bias, and focal distillation from each teacher, for each row (Eq. 3).

    Args:
        logits: (N, C) of the student, old classes first.
        target: (N,) labels.
        old_logits: (N, C_old), None for a method without the old model.
        ref_logits: (N, C), None for a method without a reference.
        settings: focal weights, bias, lambdas, temperature.
        criterion: loss of the biased logits; None: cross-entropy.
        distance: distance to each teacher; None: the settings'.
        gate: rule that selects the rows to be distilled from each teacher.

    Returns:
        By name, (N,) each: ``ce`` and, for a teacher that distils, ``fd_old`` or ``fd_ref``.
    """
    rows = mpt_rows(logits, target, old_logits, ref_logits, settings, criterion, distance)
    if gate != "none":
        rows = _gate_by_student(rows, is_top1_correct(logits, target))
    return rows.terms()


def _gate_by_student(rows: RowLosses, right: Tensor) -> RowLosses:
    """Keep the distance to the old model where the student is wrong, to the reference where it is right.

    Echterhoff et al., MUSCLE (EMNLP 2024), mask tokens by this rule; here a row is a picture.

    Args:
        rows: terms of the loss, (N,) each.
        right: (N,) bool: whether the student's prediction, without bias, is right.

    Returns:
        The rows, with distances of 0 where they are not kept.
    """
    old = None if rows.fd_old is None else rows.fd_old.where(~right, 0.0)
    ref = None if rows.fd_ref is None else rows.fd_ref.where(right, 0.0)
    return rows._replace(fd_old=old, fd_ref=ref)


def topk_lm_distance(student: Tensor, teacher: Tensor, top_k: int) -> Tensor:
    """Half the squared difference of logits, summed over the teacher's K largest classes and divided by C.

    This is top-K distillation (Zhao et al., TPAMI 2024): other classes count as equal.

    Args:
        student: (N, C) logits.
        teacher: (N, C) logits.
        top_k: K; above C it counts as C.

    Returns:
        (N,), one distance per sample; zeros where C is 0.

    Raises:
        ValueError: the shapes differ.

    >>> import torch
    >>> student, teacher = torch.zeros(1, 3), torch.tensor([[3.0, 1.0, 0.0]])
    >>> topk_lm_distance(student, teacher, top_k=1).tolist()  # 9 / 2 / 3
    [1.5]
    """
    if student.shape != teacher.shape:
        raise ValueError(f"student {tuple(student.shape)} and teacher {tuple(teacher.shape)} differ in shape")
    num_classes = student.shape[1]
    largest = teacher.topk(min(top_k, num_classes), dim=1).indices
    distance = lm_distance(student.gather(1, largest), teacher.gather(1, largest), "sum")
    return distance / max(num_classes, 1)
