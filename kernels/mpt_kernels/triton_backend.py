"""The Triton backend: `mpt_kernels::fused`, an operator of one or two launches.

Bytes a row must move, for element sizes s of the logits and s_ref, s_old of the teachers: 2 C s + C s_ref +
C_old s_old, and 24 for the label and what is handed to the sum over rows. Up to NARROW classes a row is held
in registers and every logit is read once; wider rows are read twice, the second time mostly from cache. Rows
are added up in a fixed order, so results repeat bit by bit: those of a small batch by the last program that
is done with its rows, those of a larger one by a launch of its own.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from mpt_kernels.arrivals import arrival_counter
from mpt_kernels.reference import loss_by_reference
from mpt_kernels.triton_narrow import narrow_rows
from mpt_kernels.triton_sums import sum_rows
from mpt_kernels.triton_wide import wide_rows
from mpt_kernels.types import LossSettings, MptLossOutput

# Widest row that is held in registers: 8 logits of each model a thread, up to 16 warps.
NARROW = 4096
# Classes of a row that one lane of a narrow row's warp holds.
HELD = 32
# A wide row is worked on by 4 warps, in tiles of 8 classes a lane where rows are not aligned.
LANES = 128
WIDE_EACH = 8
# Rows that the last program adds up: at once, 16 a lane of one warp. Not measured. A launch of its own adds
# up any number of rows by eight warps, SUMMED at once.
FEW_ROWS, SUMMED = 512, 1024
# The longest load or store of one thread.
VECTOR_BYTES = 16


class Loop(NamedTuple):
    """A loop over tiles.

    Attributes:
        trips: rounds of it.
        loaded, stored: bytes of a thread in each round.
        rare: it runs only for ignored rows, or rows in which a model rules classes out.
    """

    trips: int
    loaded: int
    stored: int
    rare: bool = False


class Launch(NamedTuple):
    """A launch of a row kernel.

    Attributes:
        kernel: a function of Triton.
        programs: their number.
        options: of the compiler.
        constants: compile-time arguments by name.
        sums_rows: the last program adds up the rows.
        loops: of the kernel, in the order of its code.
    """

    kernel: Any
    programs: int
    options: dict[str, Any]
    constants: dict[str, Any]
    sums_rows: bool
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
    """Compute `mpt_kernels.mpt_loss`, which has checked the arguments."""
    if logits.shape[1] == 1:
        # The only class has probability 1, which rounded powers of two only come close to.
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
    # A string in the operator's schema cannot be None. k, the last field, is passed apart.
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
    s = LossSettings(*settings)
    n = logits.shape[0]
    values, grad, counts = empty_outputs(logits)
    rows = torch.empty((4, n), dtype=torch.float32, device=logits.device)
    # An old model without classes has nothing to read: it is never right, and its distance is 0.
    old_logits = old_logits if s.num_old else None
    launch = plan(logits, target, old_logits, ref_logits, k_rows, grad, s, row_weight)
    old_value, old_slope = _factors(s.lam_old, s.num_old, s)
    ref_value, ref_slope = _factors(s.lam_ref, logits.shape[1], s)
    with torch.cuda.device_of(logits):
        arrived = arrival_counter(logits.device) if launch.sums_rows else None
        if n:
            launch.kernel[(launch.programs,)](
                logits, target, old_logits, ref_logits, k_rows, row_weight, normalizer_at, grad_scale_at,
                grad, rows, arrived, values, counts, n, k, inverse_normalizer, grad_scale,
                s.alpha, s.beta, s.ce_focal_weight, 1.0 / s.tau if s.distance == "kl" else 1.0,
                old_value, old_slope, ref_value, ref_slope, s.ignore_index,
                **launch.constants, **launch.options,
            )  # fmt: skip
        if arrived is None:
            sum_rows[(1,)](
                rows, normalizer_at, inverse_normalizer, values, counts, n, BLOCK=SUMMED, **_options(8)
            )
    return values, grad, counts


def empty_outputs(logits: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    values = torch.empty((4,), dtype=torch.float32, device=logits.device)
    counts = torch.empty((3,), dtype=torch.int64, device=logits.device)
    n, c = logits.shape
    stride = gradient_stride(logits)
    grad = torch.empty((n, stride), dtype=logits.dtype, device=logits.device)[:, :c]
    return values, grad, counts


torch.library.register_fake("mpt_kernels::fused", empty_outputs)


def gradient_stride(logits: Tensor) -> int:
    """Elements from row to row of the gradient: C, padded to 16 bytes where the logits' rows are."""
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
) -> Launch:
    """Choose the row kernel and its arguments for these tensors, by shapes, strides and storages alone."""
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
        "FEW_ROWS": FEW_ROWS,
    }
    models = [x for x in (logits, old_logits, ref_logits) if x is not None]
    # Bytes of a logit of each model, and of each that is read a second time, as that of a teacher which
    # distils.
    once = [0 if x is None else x.element_size() for x in (logits, old_logits, ref_logits)]
    again = [once[0], once[1] * constants["DISTIL_OLD"], once[2] * constants["DISTIL_REF"]]
    few = 0 < n <= FEW_ROWS
    if c <= NARROW:
        # As many lanes a row as hold it with HELD classes a lane, and as many rows as fill the warp.
        lanes = triton.next_power_of_2(triton.cdiv(c, HELD))
        rows = max(1, 32 // lanes)
        # The widest load of any model: the compiler gives all of them one layout, that one's.
        vector = max(_vector(x) for x in models)
        shape = {"ROWS": rows, "LANES": lanes, "VECTOR": vector}
        options = _options(max(1, lanes // 32))
        if few:
            # So few warps have room for all registers; of as many as the compiler takes by itself one address
            # spills.
            options["maxnreg"] = 255
        summed_again = Loop(triton.cdiv(c, lanes), sum(again), 0, rare=True)
        return Launch(narrow_rows, triton.cdiv(n, rows), options, constants | shape, few, (summed_again,))
    vector = min(_vector(x) for x in models)
    aligned = vector > 1
    each = vector if aligned else WIDE_EACH
    step = each * LANES
    shape = {"LANES": LANES, "EACH": each, "ALIGNED": aligned}
    old_tiles, new_tiles = s.num_old // step, max(0, c // step - triton.cdiv(s.num_old, step))
    loops = (
        Loop(old_tiles, each * sum(once), 0),
        Loop(new_tiles, each * (once[0] + once[2]), 0),
        Loop(new_tiles, each * (again[0] + again[2]), each * once[0]),
        Loop(old_tiles, each * sum(again), each * once[0]),
        Loop(triton.cdiv(grad.stride(0), step), 0, each * once[0], rare=True),
        Loop(triton.cdiv(c, LANES), sum(again), 0, rare=True),
    )
    return Launch(wide_rows, n, _options(LANES // 32), constants | shape, few, loops)


def _options(warps: int) -> dict[str, Any]:
    # Triton 3.10 turns fused multiply-adds off by default.
    return {"num_warps": warps, "enable_fp_fusion": True}


def row_layout(x: Tensor | None) -> tuple[int, int, int]:
    """(row stride, column stride, width up to which a row may be loaded).

    Where rows are aligned and padded, loads go on to the end of the last 16 bytes that hold a logit, so that
    none is split; what they bring from beyond is not looked at. A storage that ends with the last row's last
    logit, or a slice that is shifted to its rows' ends, holds nothing there to load.
    """
    if x is None:
        return 0, 0, 0
    width = x.shape[1]
    padded = _round_up(width, VECTOR_BYTES // x.element_size())
    end = x.storage_offset() + (x.shape[0] - 1) * x.stride(0) + padded
    fits = x.stride(0) >= padded and end * x.element_size() <= x.untyped_storage().nbytes()
    return x.stride(0), x.stride(1), padded if _rows_aligned(x) and fits else width


def _vector(x: Tensor) -> int:
    """Elements of one load: as many as 16 bytes hold, or fewer where rows begin between multiples of them."""
    return math.gcd(x.stride(0), VECTOR_BYTES // x.element_size()) if x.stride(1) == 1 else 1


def _rows_aligned(x: Tensor) -> bool:
    return x.stride(1) == 1 and x.stride(0) * x.element_size() % VECTOR_BYTES == 0


def _factors(lam: float, width: int, s: LossSettings) -> tuple[float, float]:
    """Factors of a row's distance and of its derivative, beside the focal weight."""
    if s.distance == "kl":
        return lam * (s.tau * s.tau if s.tau_squared else 1.0), lam * (
            s.tau if s.tau_squared else 1.0 / s.tau
        )
    divisor = max(width, 1) if s.lm_reduction == "mean" else 1
    return 0.5 * lam / divisor, lam / divisor


def _round_up(x: int, multiple: int) -> int:
    return int(triton.cdiv(x, multiple)) * multiple
