"""The specification: biased cross-entropy and focal distillation in plain PyTorch, values and gradient.

Equations are those of Ricci, Biondi, Pernici and Del Bimbo, "Margin Preserving Training" (AAAI 2026,
arXiv 2511.08322). Every other backend is tested against this module, and on a CPU the loss is computed here.

Shapes: N rows, C classes of the student, of which the first `num_old` are old. A row is valid unless its
target is `ignore_index`. Half precision is computed in float32, and float64 in float64.

Edge cases, here and in every backend:

- If logits tie for the maximum, the first of them is the prediction. A row with a NaN is never right.
- A class to which the teacher gives probability 0 adds nothing to the KL distance, even if the student's
  logit is -inf. If the teacher's probability is positive and the student's is 0, the KL distance is +inf.
- In logit matching two equal logits have distance 0, also two of -inf. A logit of -inf has distance +inf to a
  finite one.
- A student logit of -inf rules its class out: probability and gradient are 0. If the class is the label's,
  the loss is +inf. A row of nothing but -inf has no softmax, so loss and gradient are NaN.
- A row of nothing but -inf, or with a NaN beside +inf, is no model's answer. There the Triton kernel may
  count the row as right or wrong where this module does the opposite, and its terms may be finite; gradients
  hold NaN in both, so a training step is skipped.
- A row that is not valid adds nothing, whatever it holds. Without a valid row loss and gradient are 0.
"""

from collections.abc import Callable, Mapping

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
    TeacherInputs,
)


def compute_dtype(logits: Tensor) -> torch.dtype:
    """The type in which the loss of these logits is computed: float64 for float64 logits, else float32."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def biased_logits(logits: Tensor, num_old: int, k: float | Tensor) -> Tensor:
    """Add k to the logits of new classes: z + Delta, Delta = 0 for old classes and k for new ones (Eq. 2).

    Args:
        logits: (N, C).
        num_old: number of old classes, which are the first columns.
        k: the bias, one number or (N,).

    >>> biased_logits(torch.zeros(1, 3), num_old=1, k=2.0).tolist()
    [[0.0, 2.0, 2.0]]
    """
    is_new = torch.arange(logits.shape[1], device=logits.device) >= num_old
    bias = _as_tensor(k, logits.device, logits.dtype).reshape(-1, 1)
    return logits + torch.where(is_new, bias, 0.0)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """-log softmax(z)[y], one per sample. On biased logits: the margin-calibrated cross-entropy (Eq. 1, 2).

    Args:
        logits: (N, C), to which the bias is added already.
        target: (N,) integer, 0..C-1.

    Returns:
        (N,).

    Of two classes with probabilities 3/4 and 1/4, -log(3/4):

    >>> round(cross_entropy(torch.tensor([[3.0, 1.0]]).log(), torch.tensor([0])).item(), 4)
    0.2877
    """
    return -F.log_softmax(logits, dim=1).gather(1, target.long().unsqueeze(1)).squeeze(1)


def focal_weight(teacher: TeacherInputs, alpha: float, beta: float) -> Tensor:
    """Weigh each row, (N,): alpha + beta where the teacher is right, else alpha (Eq. 4).

    >>> teacher = TeacherInputs(torch.zeros(2, 3), torch.tensor([True, False]))
    >>> focal_weight(teacher, alpha=1.0, beta=5.0).tolist()
    [6.0, 1.0]
    """
    return alpha + beta * teacher.right.to(teacher.logits.dtype)


def kl_distance(student: Tensor, teacher: Tensor, tau: float = 5.0, tau_squared: bool = False) -> Tensor:
    """KL(softmax(z_teacher / tau) || softmax(z_student / tau)) (Eq. 5).

    Args:
        student, teacher: (N, C) logits of one type.
        tau: temperature.
        tau_squared: multiply by tau^2 (Hinton's factor), which the paper's code does not.

    Returns:
        (N,), one distance per sample.

    The teacher's softmax is (3/4, 1/4), the student's (1/2, 1/2): 3/4 log(3/2) + 1/4 log(1/2).

    >>> round(kl_distance(torch.zeros(1, 2), torch.tensor([[3.0, 1.0]]).log(), tau=1.0).item(), 4)
    0.1308
    """
    log_q_teacher = F.log_softmax(teacher / tau, dim=1)
    log_q_student = F.log_softmax(student / tau, dim=1)
    q_teacher = log_q_teacher.exp()
    # Both sides are masked before the subtraction: -inf - -inf would leave a NaN in the gradient of `where`.
    is_positive = q_teacher != 0
    difference = log_q_teacher.where(is_positive, 0.0) - log_q_student.where(is_positive, 0.0)
    distance = (q_teacher * difference).sum(dim=1)
    return distance * tau * tau if tau_squared else distance


def lm_distance(student: Tensor, teacher: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Half the squared difference of the logits, averaged or summed over classes.

    Args:
        student, teacher: (N, C) logits of one type. C = 0 gives 0.
        reduction: "mean", as in the published code, or "sum", as in Eq. 6.

    Returns:
        (N,), one distance per sample.

    >>> lm_distance(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 4.0]])).tolist()  # (0 + 4) / 2 / 2
    [1.0]
    """
    half_square = 0.5 * _difference(student, teacher).square().sum(dim=1)
    return half_square / max(student.shape[1], 1) if reduction == "mean" else half_square


def mask_inputs(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    settings: LossSettings,
) -> MaskedInputs:
    """Prepare what both values and gradient need; arguments as for `mpt_kernels.mpt_loss`."""
    valid = _none_if_all(target != settings.ignore_index)
    y = target if valid is None else target.where(valid, 0)
    dtype = compute_dtype(logits)
    z = mask_rows(logits, valid, dtype)
    teachers: list[TeacherInputs | None] = []
    for given in (old_logits, ref_logits):
        masked = None if given is None else mask_rows(given, valid, dtype)
        teachers.append(None if masked is None else TeacherInputs(masked, is_top1_correct(masked, y)))
    return MaskedInputs(z, biased_logits(z, settings.num_old, settings.k), y, valid, *teachers)


def mpt_rows(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    settings: LossSettings,
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None,
    distance: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> RowLosses:
    """Compute the parts of Eq. 3 for each row, with their weights: the loss is their sum / normaliser.

    Differentiable in `logits`.

    Args:
        logits, target, old_logits, ref_logits, settings: as for `mpt_kernels.mpt_loss`.
        criterion: from (N, C) biased logits and (N,) labels to (N,) losses; None: cross-entropy.
        distance: from (N, C) logits of the student and of a teacher to (N,) distances; None: the settings'.
    """
    masked = mask_inputs(logits, target, old_logits, ref_logits, settings)
    own_distance = distance or (lambda z, t: _distance(z, t, settings))
    return _compute_rows(masked, settings, criterion or cross_entropy, own_distance)


def _compute_rows(
    masked: MaskedInputs,
    settings: LossSettings,
    criterion: Callable[[Tensor, Tensor], Tensor],
    distance: Callable[[Tensor, Tensor], Tensor],
) -> RowLosses:
    """Compute `mpt_rows` from masked inputs."""
    z, old, ref, valid = masked.z, masked.old, masked.ref, masked.valid
    ce = criterion(masked.biased, masked.y)
    if settings.ce_focal_weight != 0.0 and old is not None:
        ce = _weigh(focal_weight(old, 1.0, settings.ce_focal_weight), ce)
    fd_old = fd_ref = None
    if settings.distance is not None and old is not None and settings.lam_old != 0.0:
        weight = focal_weight(old, settings.alpha, settings.beta)
        fd_old = _weigh(weight, distance(z[:, : settings.num_old], old.logits))
        fd_old = settings.lam_old * _valid_only(fd_old, valid)
    if settings.distance is not None and ref is not None and settings.lam_ref != 0.0:
        weight = focal_weight(ref, settings.alpha, settings.beta)
        fd_ref = settings.lam_ref * _valid_only(_weigh(weight, distance(z, ref.logits)), valid)
    return RowLosses(_valid_only(ce, valid), fd_old, fd_ref)


def mpt_gradient(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    settings: LossSettings,
) -> Tensor:
    """Compute the gradient of `mpt_rows` by hand: d (sum of a row's parts) / d logits, before any division.

    Let p = softmax(z + Delta), and q_s and q_t the softmaxes of student and teacher at tau. The gradient is
    w_ce (p - onehot), plus for each teacher lam w (q_s - q_t) / tau with KL, or lam w (z_s - z_t) / C_t with
    logit matching by the mean.

    Returns:
        (N, C) in the compute type.
    """
    return _compute_gradient(mask_inputs(logits, target, old_logits, ref_logits, settings), settings)


def _compute_gradient(masked: MaskedInputs, settings: LossSettings) -> Tensor:
    """Compute `mpt_gradient` from masked inputs."""
    z, old, ref, num_old = masked.z, masked.old, masked.ref, settings.num_old
    grad = F.softmax(masked.biased, dim=1)
    label = masked.y.long().unsqueeze(1)
    grad.scatter_add_(1, label, torch.full_like(label, -1, dtype=z.dtype))
    if old is not None:
        if settings.ce_focal_weight != 0.0:
            grad *= focal_weight(old, 1.0, settings.ce_focal_weight).unsqueeze(1)
        if settings.distance is not None and settings.lam_old != 0.0:
            weight = settings.lam_old * focal_weight(old, settings.alpha, settings.beta).unsqueeze(1)
            grad[:, :num_old].add_(weight * _distance_gradient(z[:, :num_old], old.logits, settings))
    if ref is not None and settings.distance is not None and settings.lam_ref != 0.0:
        weight = settings.lam_ref * focal_weight(ref, settings.alpha, settings.beta).unsqueeze(1)
        grad += weight * _distance_gradient(z, ref.logits, settings)
    return _valid_only(grad, masked.valid)


def _none_if_all(valid: Tensor) -> Tensor | None:
    """Return None if every row is valid, else ``valid``; on a GPU ``valid``, since reading it would wait."""
    can_look = valid.device.type == "cpu" and not torch.compiler.is_compiling()
    return None if can_look and bool(valid.all()) else valid


def _valid_only(rows: Tensor, valid: Tensor | None) -> Tensor:
    """Set rows, (N,) or (N, C), to 0 where ``valid``, (N,) bool, is False; None: every row is valid."""
    if valid is None:
        return rows
    return rows.where(valid.reshape(-1, *[1] * (rows.ndim - 1)), 0)


def invert_normalizer(
    normalizer: float | Tensor | None, target: Tensor, ignore_index: int, dtype: torch.dtype
) -> Tensor:
    """Compute 1 / normalizer as a scalar of `dtype`, or 0 if the normalizer is 0.

    None stands for the number of valid rows, those with another target than `ignore_index`.
    """
    if normalizer is None:
        normalizer = (target != ignore_index).sum()
    value = _as_tensor(normalizer, target.device, dtype).reshape(())
    return torch.where(value == 0, 0.0, 1.0 / value)


def _as_tensor(value: float | Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a number or tensor as a tensor of a type on a device."""
    # A number is filled in on the device: copying it there would wait for the device.
    if isinstance(value, Tensor):
        return value.to(device=device, dtype=dtype)
    return torch.full((), value, device=device, dtype=dtype)


def mask_rows(logits: Tensor, valid: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Convert (N, C) logits to `dtype`, with 0 in rows where `valid`, (N,) bool, is False; None: all valid.

    To be done before the loss: a NaN in an ignored row would come back through a derivative.
    """
    return _valid_only(logits.to(dtype), valid)


def _weigh(weight: Tensor, loss: Tensor) -> Tensor:
    """Multiply (N,) losses by (N,) weights; raise ValueError if the shapes differ.

    A product of (N,) and (N, 1) would broadcast to (N, N), and its sum would hide the mistake.
    """
    if weight.shape != loss.shape:
        raise ValueError(f"weights {tuple(weight.shape)} and losses {tuple(loss.shape)} differ in shape")
    return weight * loss


def _distance(student: Tensor, teacher: Tensor, settings: LossSettings) -> Tensor:
    """Compute the settings' distance, (N,), of (N, C) logits."""
    if settings.distance == "kl":
        return kl_distance(student, teacher, settings.tau, settings.tau_squared)
    return lm_distance(student, teacher, settings.lm_reduction)


def _distance_gradient(student: Tensor, teacher: Tensor, settings: LossSettings) -> Tensor:
    """Compute the gradient of `_distance` in the student's logits, (N, C)."""
    tau = settings.tau
    if settings.distance == "kl":
        factor = tau if settings.tau_squared else 1.0 / tau
        return (F.softmax(student / tau, dim=1) - F.softmax(teacher / tau, dim=1)) * factor
    difference = _difference(student, teacher)
    return difference / max(student.shape[1], 1) if settings.lm_reduction == "mean" else difference


def _difference(student: Tensor, teacher: Tensor) -> Tensor:
    """Compute student - teacher, with 0 for two equal infinities, and a gradient without NaN there."""
    same = student == teacher
    return student.where(~same, 0.0) - teacher.where(~same, 0.0)


def weigh_rows(rows: Mapping[str, Tensor], row_weight: Tensor | None) -> Mapping[str, Tensor]:
    """Multiply all terms of each row by the row's weight, (N,); None: return the rows themselves."""
    if row_weight is None:
        return rows
    return {name: _weigh(row_weight.to(row.dtype), row) for name, row in rows.items()}


def sum_rows(rows: Mapping[str, Tensor], inverse_normalizer: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Sum up rows, and divide by the normaliser.

    Args:
        rows: terms of each row by name, (N,) each, such as `RowLosses.terms`.
        inverse_normalizer: of `invert_normalizer`.

    Returns:
        The loss, and the terms whose sum it is, by the same names. All are scalars, differentiable like the
        rows.
    """
    terms = {name: row.sum() * inverse_normalizer for name, row in rows.items()}
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
    """Compute `mpt_kernels.mpt_loss` in plain PyTorch, from arguments that `mpt_loss` has checked."""
    masked = mask_inputs(logits, target, old_logits, ref_logits, settings)
    rows = _compute_rows(masked, settings, cross_entropy, lambda z, t: _distance(z, t, settings))
    inverse_normalizer = invert_normalizer(normalizer, target, settings.ignore_index, rows.ce.dtype)
    loss, terms = sum_rows(weigh_rows(rows.terms(), row_weight), inverse_normalizer)
    scale = inverse_normalizer if grad_scale is None else inverse_normalizer * grad_scale
    if row_weight is not None:
        scale = scale * row_weight.to(scale.dtype).unsqueeze(1)
    grad = (_compute_gradient(masked, settings) * scale).to(logits.dtype)
    right = {"student": is_top1_correct(masked.z, masked.y)}
    for name, teacher in (("old", masked.old), ("ref", masked.ref)):
        if teacher is not None:
            right[name] = teacher.right
    correct = {name: _valid_only(is_right, masked.valid).sum() for name, is_right in right.items()}
    return MptLossOutput(loss, terms, grad, correct)
