"""Device code that sums KL distances again for rows in which a model rules classes out, with a guard."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return"

import triton
import triton.language as tl

from mpt_kernels.triton_parts import difference_at, element


@triton.jit
def are_finite(d_old, d_ref):
    """Tell whether both sums without a guard are finite, so that they need not be computed again.

    A class makes a sum NaN if the teacher rules the class out, or if the student rules it out and the
    teacher's probability rounds to 0.
    """
    return tl.abs(d_old) + tl.abs(d_ref) < float("inf")


@triton.jit
def sum_again(
    z_at, old_at, ref_at, a_zo, a_zn, a_old, a_ref, per_tau, ROWS: tl.constexpr, LANES: tl.constexpr,
    C: tl.constexpr, C_OLD: tl.constexpr, DISTIL_OLD: tl.constexpr, DISTIL_REF: tl.constexpr, Z: tl.constexpr,
    OLD: tl.constexpr, REF: tl.constexpr,
):  # fmt: skip
    """Compute (ROWS,) sums over the classes of e (u - v), of the old model and of the reference.

    Classes with e = 0 add nothing. Pointers to rows and the maxima `a_` are (ROWS, 1), or scalars of one row.
    """
    d_old = tl.zeros((ROWS, LANES), tl.float32)
    d_ref = d_old
    for start in range(0, C, LANES):
        col = start + tl.arange(0, LANES)[None, :]
        v = tl.fma(_load(z_at, col, Z, C), per_tau, -tl.where(col < C_OLD, a_zo, a_zn))
        if DISTIL_OLD:
            u = tl.fma(_load(old_at, col, OLD, C_OLD), per_tau, -a_old)
            e = tl.exp2(u)
            d_old = tl.fma(e, difference_at(e, u, v, True), d_old)
        if DISTIL_REF:
            u = tl.fma(_load(ref_at, col, REF, C), per_tau, -a_ref)
            e = tl.exp2(u)
            d_ref = tl.fma(e, difference_at(e, u, v, True), d_ref)
    return tl.sum(d_old, 1), tl.sum(d_ref, 1)


@triton.jit
def _load(row_at, col, LAYOUT: tl.constexpr, WIDTH: tl.constexpr):
    """Load logits of some columns in float32, -inf from column WIDTH on."""
    return tl.load(row_at + element(col, LAYOUT[1]), mask=col < WIDTH, other=-float("inf")).to(tl.float32)
