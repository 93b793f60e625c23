"""The specification: biased cross-entropy and focal distillation in plain PyTorch, values and gradient.

Equations are those of Ricci, Biondi, Pernici and Del Bimbo, "Margin Preserving Training" (AAAI 2026,
arXiv 2511.08322). Every other backend is tested against this module, and a CPU uses it.

Shapes: N rows, C classes of the student, of which the first `num_old` are old. Half precision is
computed in float32; float64 stays float64.

What happens at the edges, here and in every backend:

- Where two logits tie for the maximum the first one is the answer; a row with a NaN is never right.
- A class to which the teacher gives probability 0 adds nothing to the KL distance, also where the
  student's logit is -inf. Where the teacher's probability is positive and the student's is 0, it is +inf.
- In logit matching two equal logits are 0 apart, also two of -inf; one -inf against a finite logit is +inf.
- A student logit of -inf is a class that is ruled out: probability and gradient 0. If it is the label's, the
  loss is +inf. A row of nothing but -inf has no softmax: NaN.
- A row whose target is `ignore_index` adds nothing, whatever it holds. No valid row: loss 0, gradient 0.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from mpt_kernels.correct import is_top1_correct
from mpt_kernels.types import (
    LossSettings,
    MaskedInputs,
    MptLossOutput,
    Reduction,
    RowLosses,
    TeacherAnswers,
)


def compute_dtype(logits: Tensor) -> torch.dtype:
    """The type that the loss is computed in: float64 for float64 logits, else float32."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def biased_logits(logits: Tensor, num_old: int, k: float | Tensor) -> Tensor:
    """z + Delta, Delta = 0 for old classes and k for new ones (Eq. 2).

    Args:
        logits: (N, C).
        num_old: number of old classes, the first columns.
        k: the bias, one number or (N,).

    >>> biased_logits(torch.zeros(1, 3), num_old=1, k=2.0).tolist()
    [[0.0, 2.0, 2.0]]
    """
    is_new = torch.arange(logits.shape[1], device=logits.device) >= num_old
    bias = _on_device(k, logits.device, logits.dtype).reshape(-1, 1)
    return logits + torch.where(is_new, bias, 0.0)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """-log softmax(z)[y], one per sample; of biased logits the margin-calibrated cross-entropy (Eq. 1 and 2).

    Args:
        logits: (N, C), with the bias where there is one.
        target: (N,) integer, 0..C-1.

    Returns:
        (N,).

    Of two classes with probabilities 3/4 and 1/4, -log(3/4):

    >>> round(cross_entropy(torch.tensor([[3.0, 1.0]]).log(), torch.tensor([0])).item(), 4)
    0.2877
    """
    return -F.log_softmax(logits, dim=1).gather(1, target.long().unsqueeze(1)).squeeze(1)


def focal_weight(teacher: TeacherAnswers, alpha: float, beta: float) -> Tensor:
    """(N,) weights alpha + beta * 1(argmax z_teacher == y) (Eq. 4); an unknown class is never y.

    >>> answers = TeacherAnswers(torch.zeros(2, 3), torch.tensor([True, False]))
    >>> focal_weight(answers, alpha=1.0, beta=5.0).tolist()
    [6.0, 1.0]
    """
    return alpha + beta * teacher.right.to(teacher.logits.dtype)


def kl_distance(student: Tensor, teacher: Tensor, tau: float = 5.0, tau_squared: bool = False) -> Tensor:
    """KL(softmax(z_teacher / tau) || softmax(z_student / tau)) (Eq. 5).

    Args:
        student, teacher: (N, C) of one type.
        tau: temperature.
        tau_squared: multiply by tau^2 (Hinton's factor); off in the paper's code.

    Returns:
        (N,), one distance per sample.

    The teacher says (3/4, 1/4), the student (1/2, 1/2): 3/4 log(3/2) + 1/4 log(1/2).

    >>> round(kl_distance(torch.zeros(1, 2), torch.tensor([[3.0, 1.0]]).log(), tau=1.0).item(), 4)
    0.1308
    """
    log_q_teacher = F.log_softmax(teacher / tau, dim=1)
    log_q_student = F.log_softmax(student / tau, dim=1)
    q_teacher = log_q_teacher.exp()
    # Both sides are masked before the subtraction: -inf - -inf would leave a NaN in the gradient of `where`.
    counts = q_teacher != 0
    difference = log_q_teacher.where(counts, 0.0) - log_q_student.where(counts, 0.0)
    distance = (q_teacher * difference).sum(dim=1)
    return distance * tau * tau if tau_squared else distance


def lm_distance(student: Tensor, teacher: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Half the squared difference of the logits, their mean (published code) or sum (Eq. 6) over classes.

    Args:
        student, teacher: (N, C) of one type. C = 0 gives 0.
        reduction: "mean" or "sum".

    Returns:
        (N,), one distance per sample.

    >>> lm_distance(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 4.0]])).tolist()  # (0 + 4) / 2 / 2
    [1.0]
    """
    half_square = 0.5 * _difference(student, teacher).square().sum(dim=1)
    return half_square / max(student.shape[1], 1) if reduction == "mean" else half_square


def mask_inputs(
    logits: Tensor, target: Tensor, old_logits: Tensor | None, ref_logits: Tensor | None, s: LossSettings
) -> MaskedInputs:
    """The inputs of `mpt_rows` and `mpt_gradient`, once for both. Arguments as in `mpt_kernels.mpt_loss`."""
    valid = _unless_all(target != s.ignore_index)
    y = target if valid is None else target.where(valid, 0)
    dtype = compute_dtype(logits)
    z = mask_rows(logits, valid, dtype)
    teachers: list[TeacherAnswers | None] = []
    for given in (old_logits, ref_logits):
        masked = None if given is None else mask_rows(given, valid, dtype)
        teachers.append(None if masked is None else TeacherAnswers(masked, is_top1_correct(masked, y)))
    return MaskedInputs(z, biased_logits(z, s.num_old, s.k), y, valid, *teachers)


def mpt_rows(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    s: LossSettings,
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None,
    distance: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> RowLosses:
    """The parts of Eq. 3 per sample, weighted as they enter the loss: loss = sum of all parts / normaliser.

    Differentiable in `logits`. Arguments as in `mpt_kernels.mpt_loss`, and in place of what the settings say:

    Args:
        criterion: (N, C) biased logits and (N,) labels to (N,) losses; default: cross-entropy.
        distance: (N, C) logits of the student and of a teacher to (N,) distances; default: `s.distance`.
    """
    masked = mask_inputs(logits, target, old_logits, ref_logits, s)
    return _rows(masked, s, criterion or cross_entropy, distance or (lambda z, t: _distance(z, t, s)))


def _rows(
    m: MaskedInputs,
    s: LossSettings,
    criterion: Callable[[Tensor, Tensor], Tensor],
    distance: Callable[[Tensor, Tensor], Tensor],
) -> RowLosses:
    ce = criterion(m.biased, m.y)
    if s.ce_focal_weight != 0.0 and m.old is not None:
        ce = _weighted(focal_weight(m.old, 1.0, s.ce_focal_weight), ce)
    fd_old = fd_ref = None
    if s.distance is not None and m.old is not None and s.lam_old != 0.0:
        fd_old = _weighted(focal_weight(m.old, s.alpha, s.beta), distance(m.z[:, : s.num_old], m.old.logits))
        fd_old = s.lam_old * _valid_only(fd_old, m.valid)
    if s.distance is not None and m.ref is not None and s.lam_ref != 0.0:
        fd_ref = _weighted(focal_weight(m.ref, s.alpha, s.beta), distance(m.z, m.ref.logits))
        fd_ref = s.lam_ref * _valid_only(fd_ref, m.valid)
    return RowLosses(_valid_only(ce, m.valid), fd_old, fd_ref)


def mpt_gradient(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    s: LossSettings,
) -> Tensor:
    """d (sum of all parts of a row) / d logits, (N, C) in the compute type; not divided by any normaliser.

    With p = softmax(z + Delta), q_s and q_t the softmaxes at tau: w_ce (p - onehot), and for each teacher
    lam w (q_s - q_t) / tau for KL or lam w (z_s - z_t) / C_t for logit matching by the mean.
    """
    return _gradient(mask_inputs(logits, target, old_logits, ref_logits, s), s)


def _gradient(m: MaskedInputs, s: LossSettings) -> Tensor:
    grad = F.softmax(m.biased, dim=1)
    label = m.y.long().unsqueeze(1)
    grad.scatter_add_(1, label, torch.full_like(label, -1, dtype=m.z.dtype))
    if m.old is not None:
        if s.ce_focal_weight != 0.0:
            grad *= focal_weight(m.old, 1.0, s.ce_focal_weight).unsqueeze(1)
        if s.distance is not None and s.lam_old != 0.0:
            weight = s.lam_old * focal_weight(m.old, s.alpha, s.beta).unsqueeze(1)
            grad[:, : s.num_old].add_(weight * _distance_gradient(m.z[:, : s.num_old], m.old.logits, s))
    if m.ref is not None and s.distance is not None and s.lam_ref != 0.0:
        weight = s.lam_ref * focal_weight(m.ref, s.alpha, s.beta).unsqueeze(1)
        grad += weight * _distance_gradient(m.z, m.ref.logits, s)
    return _valid_only(grad, m.valid)


def _unless_all(valid: Tensor) -> Tensor | None:
    """None where every row is valid; looked at on a CPU alone, where looking costs nothing."""
    looks = valid.device.type == "cpu" and not torch.compiler.is_compiling()
    return None if looks and bool(valid.all()) else valid


def _valid_only(rows: Tensor, valid: Tensor | None) -> Tensor:
    """(N,) or (N, C) rows, and 0 in those that are not valid, (N,) bool; None: every row is."""
    if valid is None:
        return rows
    return rows.where(valid.reshape(-1, *[1] * (rows.ndim - 1)), 0)


def invert_normalizer(
    normalizer: float | Tensor | None, target: Tensor, ignore_index: int, dtype: torch.dtype
) -> Tensor:
    """1 / normalizer as a scalar of `dtype`; 0 where it is 0. None stands for the number of valid rows."""
    if normalizer is None:
        normalizer = (target != ignore_index).sum()
    value = _on_device(normalizer, target.device, dtype).reshape(())
    return torch.where(value == 0, 0.0, 1.0 / value)


def _on_device(value: float | Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    # A number is filled in on the device: copying it there would wait for the device.
    if isinstance(value, Tensor):
        return value.to(device=device, dtype=dtype)
    return torch.full((), value, device=device, dtype=dtype)


def mask_rows(logits: Tensor, valid: Tensor | None, dtype: torch.dtype) -> Tensor:
    """(N, C) logits in `dtype`, 0 in the rows where `valid`, (N,) bool, is false; None: every row is valid.

    On the way in, so that a NaN in an ignored row cannot come back through a derivative.
    """
    return _valid_only(logits.to(dtype), valid)


def _weighted(weight: Tensor, loss: Tensor) -> Tensor:
    # A (N,) by (N, 1) product would broadcast to (N, N) and turn the weights into a constant.
    if weight.shape != loss.shape:
        raise ValueError(f"weights {tuple(weight.shape)} and losses {tuple(loss.shape)} differ in shape")
    return weight * loss


def _distance(student: Tensor, teacher: Tensor, s: LossSettings) -> Tensor:
    if s.distance == "kl":
        return kl_distance(student, teacher, s.tau, s.tau_squared)
    return lm_distance(student, teacher, s.lm_reduction)


def _distance_gradient(student: Tensor, teacher: Tensor, s: LossSettings) -> Tensor:
    if s.distance == "kl":
        factor = s.tau if s.tau_squared else 1.0 / s.tau
        return (F.softmax(student / s.tau, dim=1) - F.softmax(teacher / s.tau, dim=1)) * factor
    difference = _difference(student, teacher)
    return difference / max(student.shape[1], 1) if s.lm_reduction == "mean" else difference


def _difference(student: Tensor, teacher: Tensor) -> Tensor:
    """student - teacher, 0 for two equal infinities. Masked on the way in for the sake of the gradient."""
    same = student == teacher
    return student.where(~same, 0.0) - teacher.where(~same, 0.0)


def weigh_rows(rows: RowLosses, row_weight: Tensor | None) -> RowLosses:
    """The losses of rows, all parts of each times its weight, (N,); None: times 1."""
    if row_weight is None:
        return rows
    weight = row_weight.to(rows.ce.dtype)
    old, ref = (None if part is None else _weighted(weight, part) for part in (rows.fd_old, rows.fd_ref))
    return RowLosses(_weighted(weight, rows.ce), old, ref)


def sum_rows(rows: RowLosses, inverse_normalizer: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """From losses of rows to the loss and its terms.

    Args:
        rows: of `mpt_rows`.
        inverse_normalizer: of `invert_normalizer`.

    Returns:
        The loss, and the terms that it is the sum of: "ce" and, where that teacher distils, "fd_old" and
        "fd_ref". Scalars, differentiable.
    """
    terms = {name: row.sum() * inverse_normalizer for name, row in rows._asdict().items() if row is not None}
    return sum(terms.values(), torch.zeros_like(inverse_normalizer)), terms


def loss_by_reference(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    settings: LossSettings,
    normalizer: float | Tensor | None,
    grad_scale: float | Tensor | None,
    row_weight: Tensor | None = None,
) -> MptLossOutput:
    """`mpt_kernels.mpt_loss` on arguments that it has checked."""
    masked = mask_inputs(logits, target, old_logits, ref_logits, settings)
    rows = _rows(masked, settings, cross_entropy, lambda z, t: _distance(z, t, settings))
    rows = weigh_rows(rows, row_weight)
    inverse_normalizer = invert_normalizer(normalizer, target, settings.ignore_index, rows.ce.dtype)
    loss, terms = sum_rows(rows, inverse_normalizer)
    scale = inverse_normalizer if grad_scale is None else inverse_normalizer * grad_scale
    if row_weight is not None:
        scale = scale * row_weight.to(scale.dtype).unsqueeze(1)
    grad = (_gradient(masked, settings) * scale).to(logits.dtype)
    right = {
        "student": _valid_only(is_top1_correct(masked.z, masked.y), masked.valid),
        **{name: t.right for name, t in (("old", masked.old), ("ref", masked.ref)) if t is not None},
    }
    correct = {name: _valid_only(rows, masked.valid).sum() for name, rows in right.items()}
    return MptLossOutput(loss, terms, grad, correct)
