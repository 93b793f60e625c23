"""The loss function, `mpt_loss`: checks its arguments, and calls the backend that fits them."""

import importlib.util
from typing import Literal, get_args

import torch
from torch import Tensor

from mpt_kernels.reference import loss_by_reference
from mpt_kernels.types import Distance, LossSettings, MptLossOutput, Reduction

Backend = Literal["auto", "reference", "triton"]
_DEFAULT = LossSettings(num_old=0)

TRITON_TYPES = (torch.float32, torch.bfloat16, torch.float16)
# Found out once, since torch 2.10 cannot compile a call that looks for a package.
_HAS_TRITON = importlib.util.find_spec("triton") is not None


def mpt_loss(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None = None,
    ref_logits: Tensor | None = None,
    *,
    num_old: int,
    k: float | Tensor = _DEFAULT.k,
    distance: Distance | None = _DEFAULT.distance,
    lam: float = _DEFAULT.lam_old,
    lam_old: float | None = None,
    lam_ref: float | None = None,
    alpha: float = _DEFAULT.alpha,
    beta: float = _DEFAULT.beta,
    tau: float = _DEFAULT.tau,
    tau_squared: bool = _DEFAULT.tau_squared,
    lm_reduction: Reduction = _DEFAULT.lm_reduction,
    ce_focal_weight: float = _DEFAULT.ce_focal_weight,
    ignore_index: int = _DEFAULT.ignore_index,
    normalizer: float | Tensor | None = None,
    grad_scale: float | Tensor | None = None,
    row_weight: Tensor | None = None,
    backend: Backend = "auto",
) -> MptLossOutput:
    """Compute the loss of margin preserving training, its terms and gradient, and count right predictions.

    loss = ce + fd_old + fd_ref, each the sum over valid rows divided by `normalizer` (Eq. 3):
    ce is -log softmax(z + Delta)[y], Delta = k on new classes (Eq. 1, 2), times
    1 + ce_focal_weight * 1(old right);
    fd_x is lam_x * (alpha + beta * 1(teacher right)) * distance(teacher, z) (Eq. 4 to 6), without the bias.
    Nothing here waits for the device. The result is detached: call `logits.backward(out.grad)`, or use
    `MPTLoss`.

    Args:
        logits: (N, C) of the student, old classes first. float32, bfloat16, float16 or float64; any strides.
        target: (N,) int64 or int32, 0..C-1 or `ignore_index`.
        old_logits: (N, num_old) of the old model, any float type; or None. Compared with
            `logits[:, :num_old]`.
        ref_logits: (N, C) of the reference model, or an ensemble's mean, any float type; or None.
        num_old: number of old classes, 0..C.
        k: bias of the new classes, a number or a tensor of one or (N,) values.
        distance: "kl" (Eq. 5), "lm" (Eq. 6), or None: no distillation, teachers are only counted.
        lam: weight of both distillations. At 0 a teacher does not distil.
        lam_old, lam_ref: weight of one distillation, in place of `lam`; None: `lam`.
        alpha, beta: the focal weight of a sample is alpha + beta where the teacher is right, else alpha.
        tau: temperature of the KL distance, > 0.
        tau_squared: multiply the KL distance by tau^2.
        lm_reduction: "mean" (as the published code) or "sum" over classes.
        ce_focal_weight: extra weight of the cross-entropy where the old model is right (1 in PCT-naive).
        ignore_index: rows with this target are not valid: they count nowhere, and their gradient is 0.
        normalizer: divisor of sums over rows, a number or a scalar tensor; None: the number of valid rows. At
            0 loss and gradient are 0.
        grad_scale: factor of the gradient alone, a number or a scalar tensor, applied before rounding.
        row_weight: (N,) further factor of all terms and of the gradient of each row; None: 1. It changes
            neither the number of valid rows nor the counts of right predictions. The loss of a mixture of two
            labels is the sum of two calls, each with the weights of its own label.
        backend: "auto" takes Triton for CUDA tensors and the reference elsewhere; see `backend_for`.

    Raises:
        ValueError: shapes, types or settings do not fit; on a CPU also: a target lies outside 0..C-1. On a
            GPU, where the check would have to wait, such a target makes loss and gradient NaN instead.

    Examples:
        Two classes with equal logits, the second one new, and k = log 3: with the bias the first has
        probability 1/4.

        >>> out = mpt_loss(torch.zeros(1, 2), torch.tensor([0]), num_old=1, k=torch.tensor(3.0).log())
        >>> round(out.loss.item(), 4)  # log 4
        1.3863
        >>> [round(value, 4) for value in out.grad[0].tolist()]
        [-0.75, 0.75]
    """
    settings = LossSettings(
        num_old=num_old,
        distance=distance,
        lam_old=lam if lam_old is None else lam_old,
        lam_ref=lam if lam_ref is None else lam_ref,
        alpha=alpha,
        beta=beta,
        tau=tau,
        tau_squared=tau_squared,
        lm_reduction=lm_reduction,
        ce_focal_weight=ce_focal_weight,
        ignore_index=ignore_index,
        k=k,
    )
    _check(logits, target, old_logits, ref_logits, row_weight, settings)
    for name, value in {"normalizer": normalizer, "grad_scale": grad_scale}.items():
        if isinstance(value, Tensor) and (value.numel() != 1 or value.device != logits.device):
            raise ValueError(f"{name} must be a number or one value on {logits.device}")
    if row_weight is not None and row_weight.shape != target.shape:
        raise ValueError(
            f"row_weight must be one per row {tuple(target.shape)}, not {tuple(row_weight.shape)}"
        )
    inputs = (logits.detach(), target, _detached(old_logits), _detached(ref_logits))
    if backend_for(logits, backend) == "triton":
        # Imported here, because Triton is not installed everywhere.
        from mpt_kernels.triton_backend import mpt_loss as by_triton

        return by_triton(*inputs, settings, normalizer, grad_scale, row_weight)
    return loss_by_reference(*inputs, settings, normalizer, grad_scale, row_weight)


def backend_for(logits: Tensor, backend: Backend = "auto") -> Literal["reference", "triton"]:
    """Choose the backend that computes `mpt_loss` for these logits.

    "auto" is Triton for float32, bfloat16 and float16 tensors on CUDA if Triton is installed, and else the
    reference.

    Raises:
        ValueError: the backend is unknown; or it is Triton, which is not installed or does not compute the
            logits' type.
    """
    if backend not in get_args(Backend):
        raise ValueError(f"backend {backend!r} is unknown; choose one of {', '.join(get_args(Backend))}")
    if backend == "reference":
        return "reference"
    if backend == "auto":
        fits = logits.is_cuda and logits.dtype in TRITON_TYPES and _HAS_TRITON
        return "triton" if fits else "reference"
    if logits.dtype not in TRITON_TYPES:
        raise ValueError(f"the triton backend computes float32, bfloat16 and float16, not {logits.dtype}")
    if not _HAS_TRITON:
        raise ValueError("the triton backend needs the package triton, which is not installed")
    return "triton"


def _detached(logits: Tensor | None) -> Tensor | None:
    return None if logits is None else logits.detach()


def _check(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    row_weight: Tensor | None,
    settings: LossSettings,
) -> None:
    """Raise ValueError if shapes, types, devices or settings do not fit, or a target on a CPU is outside."""
    if logits.ndim != 2 or logits.shape[1] == 0 or not logits.is_floating_point():
        raise ValueError(
            f"logits must be a float (N, C) with C > 0, not {logits.dtype} {tuple(logits.shape)}"
        )
    n, c = logits.shape
    if target.shape != (n,) or target.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"target must be int64 or int32 ({n},), not {target.dtype} {tuple(target.shape)}")
    if not 0 <= settings.num_old <= c:
        raise ValueError(f"num_old must lie in 0..{c}, the number of classes, not {settings.num_old}")
    for name, teacher, width in (("old_logits", old_logits, settings.num_old), ("ref_logits", ref_logits, c)):
        if teacher is not None and (teacher.shape != (n, width) or not teacher.is_floating_point()):
            shape = tuple(teacher.shape)
            raise ValueError(f"{name} must be a float ({n}, {width}), not {teacher.dtype} {shape}")
    if isinstance(settings.k, Tensor) and settings.k.shape not in ((), (1,), (n,)):
        raise ValueError(f"k must be a number or one per row ({n},), not {tuple(settings.k.shape)}")
    for name, tensor in {
        "target": target,
        "old_logits": old_logits,
        "ref_logits": ref_logits,
        "k": settings.k,
        "row_weight": row_weight,
    }.items():
        if isinstance(tensor, Tensor) and tensor.device != logits.device:
            raise ValueError(f"{name} is on {tensor.device}, the logits are on {logits.device}")
    if settings.distance not in (None, *get_args(Distance)):
        raise ValueError(f"distance {settings.distance!r} is unknown; choose kl, lm or None")
    if settings.lm_reduction not in get_args(Reduction):
        raise ValueError(f"lm_reduction {settings.lm_reduction!r} is unknown; choose mean or sum")
    if settings.distance == "kl" and not settings.tau > 0:
        raise ValueError(f"tau must be positive, not {settings.tau}")
    if settings.ce_focal_weight != 0.0 and old_logits is None:
        raise ValueError(
            "ce_focal_weight needs old_logits: it weights the samples that the old model gets right"
        )
    # Reading a tensor does not wait on a CPU only. In a compiled graph `gather` raises instead.
    if target.device.type == "cpu" and not torch.compiler.is_compiling() and n:
        low, high = target.aminmax()
        if bool(low >= 0) and bool(high < c):
            return
        outside = (target != settings.ignore_index) & ((target < 0) | (target >= c))
        if bool(outside.any()):
            value = target[outside][0].item()
            raise ValueError(
                f"target {value} lies outside 0..{c - 1} and is not ignore_index ({settings.ignore_index})"
            )
