"""A kernel with the loads and stores of the fused loss and next to no arithmetic: what its layout alone costs."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from mpt_kernels import triton_backend
from mpt_kernels.layouts import NarrowLayout, WideLayout
from mptctl.bench.loss_timing import Inputs


@triton.jit
def _sum_models(
    z_ptr, old_ptr, ref_ptr, grad_ptr, n_rows, Z: tl.constexpr, OLD: tl.constexpr, REF: tl.constexpr,
    GRAD: tl.constexpr, C: tl.constexpr, C_OLD: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
    AT_ONCE: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """Store z + ref, and + old on old classes, of ROWS rows, in tiles of TILE columns, AT_ONCE of them loaded first."""
    if CHAINED:
        gdc_launch_dependents()
        gdc_wait()
    row = tl.minimum(tl.program_id(0) * ROWS + tl.arange(0, ROWS), n_rows - 1).to(tl.int64)[:, None]
    col = tl.arange(0, TILE)[None, :]
    TILES: tl.constexpr = (C + TILE - 1) // TILE
    for first in tl.static_range(0, TILES, AT_ONCE):
        loaded = ()
        for i in tl.static_range(first, min(first + AT_ONCE, TILES)):
            at = i * TILE + col
            x = tl.load(z_ptr + row * Z + at, mask=at < C, other=0.0).to(tl.float32)
            x += tl.load(ref_ptr + row * REF + at, mask=at < C, other=0.0).to(tl.float32)
            if i * TILE < C_OLD:
                x += tl.load(old_ptr + row * OLD + at, mask=at < C_OLD, other=0.0).to(tl.float32)
            loaded += (x,)
        for i in tl.static_range(first, min(first + AT_ONCE, TILES)):
            at = i * TILE + col
            tl.store(grad_ptr + row * GRAD + at, loaded[i - first].to(grad_ptr.dtype.element_ty), mask=at < C)


def copy_shaped(
    layout: NarrowLayout | WideLayout, given: Inputs, *, chained: bool = False, warm_up: bool = False
) -> Tensor:
    """Launch the kernel in the programs and tiles that a layout gives the fused loss; return what it stores, (N, C).

    Args:
        layout: of the fused loss.
        given: its inputs.
        chained: whether the kernel is made ready while the one before it runs.
        warm_up: compile the kernel alone.
    """
    logits, _, old, ref = given
    n, c = logits.shape
    grad = torch.empty(n, triton_backend.gradient_stride(logits), dtype=logits.dtype, device=logits.device)[
        :, :c
    ]
    if isinstance(layout, NarrowLayout):
        lanes = triton.next_power_of_2(triton.cdiv(c, layout.held))
        warps = max(layout.warps, triton.cdiv(lanes, 32))
        rows, tile = 32 * warps // lanes, lanes * 16 // logits.element_size()
        at_once = triton.cdiv(c, tile)
    else:
        warps, rows, tile, at_once = layout.warps, 1, 32 * layout.warps * layout.each, 2
    arguments = (
        logits, old, ref, grad, n, logits.stride(0), old.stride(0), ref.stride(0), grad.stride(0), c,
        old.shape[1], rows, tile, at_once, chained,
    )  # fmt: skip
    if warm_up:
        _sum_models.warmup(*arguments, num_warps=warps, launch_pdl=chained, grid=(1,))
    else:
        _sum_models[(triton.cdiv(n, rows),)](*arguments, num_warps=warps, launch_pdl=chained)
    return grad
