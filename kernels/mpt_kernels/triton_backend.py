"""The Triton backend: registers the operator `mpt_kernels::fused`, and launches its two kernels.

A row kernel computes the gradient, and the loss of each row. A row must move 2 C s + C s_ref + C_old s_old +
24 bytes, for element sizes s of the student's logits and s_ref, s_old of the teachers'; 24 bytes are the
label and the row's results. Rows of up to NARROW classes are held in registers, so every logit is read once.
Wider rows are read twice; of a large batch more is under way than the cache holds.

Rows are added up in a fixed order, so results are bitwise reproducible: each program of the row kernel adds
up its own, and a second kernel those of all programs. From sm_90 on the second launch is made ready while the
first one runs, and waits for its end.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from mpt_kernels import tuned
from mpt_kernels.layouts import (
    NarrowLayout,
    WideLayout,
    find_layout,
)
from mpt_kernels.reference import loss_by_reference
from mpt_kernels.triton_narrow import narrow_rows
from mpt_kernels.triton_sums import add_programs
from mpt_kernels.triton_wide import wide_rows
from mpt_kernels.types import LossSettings, MptLossOutput

# Most classes of a row that is held in registers: 8 logits of each model a thread, up to 16 warps.
NARROW = 4096
# Programs that the second kernel adds up at once, at least and at most; a warp for each 256 of them, 4 or
# more.
SUMMED = (128, 4096)
# Compute capability from which on a launch can be made ready while the one before it runs.
READY_FROM = 90
# Whether row kernels are made ready while the kernel before them runs.
CHAINED = True
# Bytes of the longest load or store of one thread.
VECTOR_BYTES = 16


class Loop(NamedTuple):
    """A loop over tiles in a row kernel.

    Attributes:
        trips: number of rounds.
        loaded, stored: bytes that a thread moves in each round.
        rare: whether the loop runs only for ignored rows, or for rows in which a model rules classes out.
    """

    trips: int
    loaded: int
    stored: int
    rare: bool = False


class Launch(NamedTuple):
    """A launch of a row kernel.

    Attributes:
        kernel: a function of Triton.
        programs: number of programs.
        options: of Triton's compiler.
        constants: compile-time arguments by name.
        loops: of the kernel, in the order of its code.
    """

    kernel: Any
    programs: int
    options: dict[str, Any]
    constants: dict[str, Any]
    loops: tuple[Loop, ...] = ()


def mpt_loss(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    s: LossSettings,
    normalizer: float | Tensor | None,
    grad_scale: float | Tensor | None,
    row_weight: Tensor | None = None,
) -> MptLossOutput:
    """Compute `mpt_kernels.mpt_loss` by the Triton kernels, from arguments that `mpt_loss` has checked."""
    if logits.shape[1] == 1:
        # The only class has probability 1, which the kernel's rounded powers of two only come close to.
        return loss_by_reference(
            logits, target, old_logits, ref_logits, s, normalizer, grad_scale, row_weight
        )
    if normalizer is None:
        normalizer = (target != s.ignore_index).sum()
    k_rows = s.k.expand(logits.shape[0]) if isinstance(s.k, Tensor) else None
    values, grad, counts = torch.ops.mpt_kernels.fused(
        logits,
        target,
        old_logits,
        ref_logits,
        k_rows,
        row_weight,
        normalizer if isinstance(normalizer, Tensor) else None,
        grad_scale if isinstance(grad_scale, Tensor) else None,
        0.0 if isinstance(s.k, Tensor) else float(s.k),
        0.0 if isinstance(normalizer, Tensor) or normalizer == 0 else 1.0 / normalizer,
        1.0 if grad_scale is None or isinstance(grad_scale, Tensor) else float(grad_scale),
        *_as_arguments(s),
    )
    terms = {"ce": values[1]}
    correct = {"student": counts[0]}
    if old_logits is not None:
        correct["old"] = counts[1]
        if s.distance is not None and s.lam_old != 0.0:
            terms["fd_old"] = values[2]
    if ref_logits is not None:
        correct["ref"] = counts[2]
        if s.distance is not None and s.lam_ref != 0.0:
            terms["fd_ref"] = values[3]
    return MptLossOutput(values[0], terms, grad, correct)


def _as_arguments(s: LossSettings) -> list[Any]:
    """Return the settings but for k as the operator's last arguments, with "none" for no distance."""
    # A string in the operator's schema cannot be None. k, the last field, is another argument.
    return [s.num_old, s.distance or "none", *s[2:-1]]


torch.library.define(
    "mpt_kernels::fused",
    "(Tensor logits, Tensor target, Tensor? old_logits, Tensor? ref_logits, Tensor? k_rows, "
    "Tensor? row_weight, Tensor? normalizer_at, Tensor? grad_scale_at, "
    "float k, float inverse_normalizer, float grad_scale, int num_old, str distance, "
    "float lam_old, float lam_ref, float alpha, float beta, float tau, bool tau_squared, str lm_reduction, "
    "float ce_focal_weight, int ignore_index) -> (Tensor values, Tensor grad, Tensor counts)",
)


@torch.library.impl("mpt_kernels::fused", ("CUDA", "CPU"))
def _fused(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    k_rows: Tensor | None,
    row_weight: Tensor | None,
    normalizer_at: Tensor | None,
    grad_scale_at: Tensor | None,
    k: float,
    inverse_normalizer: float,
    grad_scale: float,
    *settings: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Launch the row kernel, and the kernel that adds up its programs.

    Args:
        logits, target, old_logits, ref_logits, row_weight: as for `mpt_kernels.mpt_loss`.
        k_rows: (N,) the bias of each row; None: ``k`` of all rows.
        normalizer_at: a tensor with the normaliser; None: ``inverse_normalizer`` is its inverse.
        grad_scale_at: a tensor with the factor of the gradient; None: ``grad_scale``.
        k, inverse_normalizer, grad_scale: numbers in place of tensors.
        settings: of `_as_arguments`.

    Returns:
        (4,) loss and its three terms, (N, C) gradient, and (3,) counts of right predictions.
    """
    s = LossSettings(*settings)
    n = logits.shape[0]
    values, grad, counts = empty_outputs(logits)
    if n == 0:
        return values.zero_(), grad, counts.zero_()
    # An old model without classes is never right, and its distance is 0, as without an old model.
    old_logits = old_logits if s.num_old else None
    launch = plan(logits, target, old_logits, ref_logits, k_rows, grad, s, row_weight)
    sums = torch.empty((2, launch.programs, 4), dtype=torch.float32, device=logits.device)
    with torch.cuda.device_of(logits):
        launch.kernel[(launch.programs,)](
            logits, target, old_logits, ref_logits, k_rows, row_weight, normalizer_at, grad_scale_at,
            grad, sums, n, k, inverse_normalizer, grad_scale, *kernel_settings(s, logits.shape[1]),
            **launch.constants, **launch.options,
        )  # fmt: skip
        add_programs[(1,)](
            sums, launch.programs, normalizer_at, inverse_normalizer, values, counts, **sums_options(launch)
        )
    return values, grad, counts


def empty_outputs(logits: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Allocate values (4,), gradient (N, C) and counts (3,) of the operator; other arguments are ignored."""
    values = torch.empty((4,), dtype=torch.float32, device=logits.device)
    counts = torch.empty((3,), dtype=torch.int64, device=logits.device)
    n, c = logits.shape
    stride = gradient_stride(logits)
    grad = torch.empty((n, stride), dtype=logits.dtype, device=logits.device)[:, :c]
    return values, grad, counts


torch.library.register_fake("mpt_kernels::fused", empty_outputs)


def gradient_stride(logits: Tensor) -> int:
    """The gradient's elements from row to row: C, padded to 16 bytes if the logits' rows are padded so."""
    c = logits.shape[1]
    padded = _round_up(c, VECTOR_BYTES // logits.element_size())
    return padded if _rows_aligned(logits) and logits.stride(0) >= padded else c


def plan(
    logits: Tensor,
    target: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    k_rows: Tensor | None,
    grad: Tensor,
    s: LossSettings,
    row_weight: Tensor | None = None,
    layout: NarrowLayout | WideLayout | None = None,
    capability: int | None = None,
) -> Launch:
    """Choose the row kernel, its compile-time arguments and its number of programs.

    Tensors may be meta tensors: only shapes, strides, types and storages are looked at.

    Args:
        logits, target, old_logits, ref_logits, s, row_weight: as for `mpt_kernels.mpt_loss`.
        k_rows: (N,) the bias of each row, or None.
        grad: of `empty_outputs`.
        layout: of the kernel; None: that of the table in `mpt_kernels.tuned`.
        capability: compute capability of the GPU, 90 for 9.0; None: of the logits' device.
    """
    n, c = logits.shape
    distance = s.distance if s.distance in ("kl", "lm") else "none"
    constants: dict[str, Any] = {
        "C": c,
        "C_OLD": s.num_old,
        "DISTANCE": distance,
        "DISTIL_OLD": old_logits is not None and distance != "none" and s.lam_old != 0.0,
        "DISTIL_REF": ref_logits is not None and distance != "none" and s.lam_ref != 0.0,
        "Z": row_layout(logits),
        "OLD": row_layout(old_logits),
        "REF": row_layout(ref_logits),
        "GRAD": (grad.stride(0), 1, grad.stride(0)),
        "Y_STRIDE": target.stride(0),
        "K_STRIDE": 0 if k_rows is None else k_rows.stride(0),
        "WEIGHT_STRIDE": 0 if row_weight is None else row_weight.stride(0),
    }
    models = [x for x in (logits, old_logits, ref_logits) if x is not None]
    # Bytes of a logit of each model, and of each model that is read twice: student and distilling teachers.
    once = [0 if x is None else x.element_size() for x in (logits, old_logits, ref_logits)]
    again = [once[0], once[1] * constants["DISTIL_OLD"], once[2] * constants["DISTIL_REF"]]
    if capability is None and logits.is_cuda:
        major, minor = torch.cuda.get_device_capability(logits.device)
        capability = 10 * major + minor
    constants["READY"] = capability is not None and capability >= READY_FROM
    size = (capability, c, logits.element_size(), n)
    if c <= NARROW:
        if not isinstance(layout, NarrowLayout):
            layout = find_layout(tuned.NARROW, NarrowLayout(), *size)
        constants["POWER"] = _power(s.tau, constants) if layout.power else 0
        return _plan_narrow(n, c, models, sum(again), constants, layout)
    if not isinstance(layout, WideLayout):
        layout = find_layout(tuned.WIDE, WideLayout(), *size)
    vector = min(_vector(x) for x in models)
    aligned = vector > 1
    lanes, each = 32 * layout.warps, vector if aligned else layout.each
    step = each * lanes
    shape = {
        "LANES": lanes,
        "EACH": each,
        "ALIGNED": aligned,
        "KEEP": "evict_last" if layout.caching else "",
        "DROP": "evict_first" if layout.caching else "",
        "PAST": ".cs" if layout.caching else "",
        "POWER": _power(s.tau, constants) if layout.power else 0,
    }
    old_tiles, new_tiles = s.num_old // step, max(0, c // step - triton.cdiv(s.num_old, step))
    loops = (
        Loop(old_tiles, each * sum(once), 0),
        Loop(new_tiles, each * (once[0] + once[2]), 0),
        Loop(new_tiles, each * (again[0] + again[2]), each * once[0]),
        Loop(old_tiles, each * sum(again), each * once[0]),
        Loop(triton.cdiv(grad.stride(0), step), 0, each * once[0], rare=True),
        Loop(triton.cdiv(c, lanes), sum(again), 0, rare=True),
    )
    return Launch(wide_rows, n, _row_options(layout.warps, constants), constants | shape, loops)


def _plan_narrow(
    n: int, c: int, models: list[Tensor], bytes_again: int, constants: dict[str, Any], layout: NarrowLayout
) -> Launch:
    """Plan the launch for rows that registers hold.

    Args:
        n, c: number of rows and of classes.
        models: logits of the student and of the teachers that are given.
        bytes_again: bytes of one class in all models that `sum_again` reads.
        constants: compile-time arguments that wide rows have too.
        layout: of the kernel.
    """
    lanes = triton.next_power_of_2(triton.cdiv(c, layout.held))
    warps = max(layout.warps, triton.cdiv(lanes, 32))
    rows = 32 * warps // lanes
    # The widest load of any model, since the compiler gives all of them the layout of the widest.
    vector = layout.vector or max(_vector(x) for x in models)
    shape = {"ROWS": rows, "LANES": lanes, "VECTOR": vector}
    loops = (Loop(triton.cdiv(c, lanes), bytes_again, 0, rare=True),)
    options = _row_options(warps, constants) | ({"maxnreg": layout.registers} if layout.registers else {})
    return Launch(narrow_rows, triton.cdiv(n, rows), options, constants | shape, loops)


def _power(tau: float, constants: dict[str, Any]) -> int:
    """Return tau if an exponential at temperature 1 is that at tau to a power from 2 to 8, else 0.

    Every class must have an exponential at tau, as it has where the reference distils.
    """
    fits = constants["DISTANCE"] == "kl" and constants["DISTIL_REF"] and tau in range(2, 9)
    return int(tau) if fits else 0


def _options(warps: int) -> dict[str, Any]:
    """Options of Triton's compiler for a kernel of so many warps."""
    # Triton 3.10 turns fused multiply-adds off by default.
    return {"num_warps": warps, "enable_fp_fusion": True}


def _row_options(warps: int, constants: dict[str, Any]) -> dict[str, Any]:
    """Options for a row kernel of so many warps, which may be made ready while the launch before it runs."""
    return _options(warps) | {"launch_pdl": CHAINED and constants["READY"]}


def row_layout(x: Tensor | None) -> tuple[int, int, int]:
    """Return row stride, column stride, and the width up to which a row may be loaded; zeros for None.

    The width is the number of columns. If rows are aligned and padded, the width is rounded up to 16 bytes,
    so that a row's last load need not be split; kernels mask what lies beyond the columns. It is not rounded
    up if the storage ends before, as after the last logit of the last row.
    """
    if x is None:
        return 0, 0, 0
    width = x.shape[1]
    padded = _round_up(width, VECTOR_BYTES // x.element_size())
    end = x.storage_offset() + (x.shape[0] - 1) * x.stride(0) + padded
    fits = x.stride(0) >= padded and end * x.element_size() <= x.untyped_storage().nbytes()
    return x.stride(0), x.stride(1), padded if _rows_aligned(x) and fits else width


def _vector(x: Tensor) -> int:
    """The elements that one load can take: 16 bytes of them, or fewer if not every row begins at 16 bytes."""
    return math.gcd(x.stride(0), VECTOR_BYTES // x.element_size()) if x.stride(1) == 1 else 1


def _rows_aligned(x: Tensor) -> bool:
    """Tell whether rows are contiguous and a multiple of 16 bytes apart."""
    return x.stride(1) == 1 and x.stride(0) * x.element_size() % VECTOR_BYTES == 0


def sums_options(launch: Launch) -> dict[str, Any]:
    """Return constants and options of the launch that adds up the programs of another launch."""
    fewest, most = SUMMED
    block = min(max(triton.next_power_of_2(launch.programs), fewest), most)
    ready = launch.constants["READY"]
    return {"BLOCK": block, "READY": ready, "launch_pdl": ready, **_options(max(block // 256, 4))}


def kernel_settings(s: LossSettings, classes: int) -> tuple[float, ...]:
    """Return the arguments of a row kernel that settings decide, in order.

    Args:
        s: the settings.
        classes: number of classes.
    """
    old_value, old_slope = _factors(s.lam_old, s.num_old, s)
    ref_value, ref_slope = _factors(s.lam_ref, classes, s)
    per_tau = 1.0 / s.tau if s.distance == "kl" else 1.0
    return (
        s.alpha, s.beta, s.ce_focal_weight, per_tau, old_value, old_slope, ref_value, ref_slope,
        s.ignore_index,
    )  # fmt: skip


def _factors(lam: float, width: int, s: LossSettings) -> tuple[float, float]:
    """Return the factors of a row's distance and of its derivative, without the focal weight.

    Args:
        lam: weight of the teacher's distillation.
        width: number of the teacher's classes.
        s: the settings.
    """
    if s.distance == "kl":
        value, slope = (s.tau * s.tau, s.tau) if s.tau_squared else (1.0, 1.0 / s.tau)
        return lam * value, lam * slope
    divisor = max(width, 1) if s.lm_reduction == "mean" else 1
    return 0.5 * lam / divisor, lam / divisor


def _round_up(x: int, multiple: int) -> int:
    return int(triton.cdiv(x, multiple)) * multiple
