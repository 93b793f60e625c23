"""Device code for one tile of a wide row: adds it to the sums of the first pass, and stores its gradient."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return"

import triton
import triton.language as tl

from mpt_kernels.triton_parts import (
    LOG2E,
    difference_at,
    difference_of,
    load_tile,
    not_a_number,
    power,
    rescaling,
    rounded_product,
    spread,
)


@triton.jit
def max_before_label(
    x_ptr, lane, each, y, STEP: tl.constexpr, LAYOUT: tl.constexpr, WIDTH: tl.constexpr, ALIGNED: tl.constexpr
):
    """Compute each lane's maximum, (LANES,), over those columns of the label's own tile before the label."""
    start = y // STEP * STEP
    x = load_tile(x_ptr, lane, each, start, LAYOUT, WIDTH, False, "")
    x = tl.where(start + lane + each < y, x, -float("inf"))
    return tl.max(x, 1 if ALIGNED else 0)


@triton.jit
def sum_tile(
    # The running values: maxima and sums of the student and of both teachers, maxima before the label.
    m_z, b_z, s_z, m_old, s_old, d_old, m_ref, s_ref, d_ref, z_before, old_before, ref_before,
    # The tile: rows, columns, label, log2(e) / tau; LOW..HIGH-1 count, and MASKED if it has other columns.
    z_ptr, old_ptr, ref_ptr, lane, each, start, y, per_tau, LOW: tl.constexpr, HIGH: tl.constexpr,
    MASKED: tl.constexpr, C: tl.constexpr, C_OLD: tl.constexpr, DISTANCE: tl.constexpr,
    DISTIL_OLD: tl.constexpr, DISTIL_REF: tl.constexpr, Z: tl.constexpr, OLD: tl.constexpr,
    REF: tl.constexpr, STEP: tl.constexpr, ALIGNED: tl.constexpr, EVICT: tl.constexpr,
    POWER: tl.constexpr,
):  # fmt: skip
    """Add the columns LOW..HIGH-1 of a tile to each lane's maxima and sums, and return these.

    There are sums of z at temperature 1 and at tau, and of each teacher. A distance is the sum of
    exp((t - m_t) / tau) (t - z) for KL, and of (z - t)^2 for logit matching. The maxima before the label are
    raised if the whole tile lies before the label.
    """
    col = start + lane + each
    live = (col >= LOW) & (col < HIGH)
    all_before = start + STEP <= y
    z = load_tile(z_ptr, lane, each, start, Z, C, not MASKED, EVICT)
    if MASKED:
        z = tl.where(live, z, -float("inf"))
    top = tl.max(z, 1 if ALIGNED else 0)
    z_before = tl.maximum(z_before, tl.where(all_before, top, -float("inf")))
    m = tl.maximum(m_z, top)
    if DISTANCE == "kl" and (DISTIL_OLD or DISTIL_REF):
        a = rounded_product(m, per_tau)
        shrink = rescaling(m_z, per_tau, a)
        e = tl.exp2(tl.fma(z, per_tau, -spread(a, ALIGNED)))
        s_z = s_z * shrink + _total(e, ALIGNED)
        if POWER:
            b_z = b_z * power(shrink, POWER) + _total(power(e, POWER), ALIGNED)
    if not POWER:
        a = rounded_product(m, LOG2E)
        b_z = b_z * rescaling(m_z, LOG2E, a) + _total(tl.exp2(tl.fma(z, LOG2E, -spread(a, ALIGNED))), ALIGNED)
    m_z = m
    if old_ptr is not None:
        old = load_tile(old_ptr, lane, each, start, OLD, C_OLD, not MASKED, EVICT)
        m_old, s_old, d_old, old_before = _teacher(
            z, old, live, all_before, m_old, s_old, d_old, old_before, per_tau,
            MASKED, DISTANCE, DISTIL_OLD, ALIGNED,
        )  # fmt: skip
    if ref_ptr is not None:
        ref = load_tile(ref_ptr, lane, each, start, REF, C, not MASKED, EVICT)
        if MASKED:
            ref = tl.where(live, ref, -float("inf"))
        m_ref, s_ref, d_ref, ref_before = _teacher(
            z, ref, live, all_before, m_ref, s_ref, d_ref, ref_before, per_tau,
            MASKED, DISTANCE, DISTIL_REF, ALIGNED,
        )  # fmt: skip
    return m_z, b_z, s_z, m_old, s_old, d_old, m_ref, s_ref, d_ref, z_before, old_before, ref_before


@triton.jit
def _teacher(
    z, t, live, all_before, m_t, s, d, before, per_tau,
    MASKED: tl.constexpr, DISTANCE: tl.constexpr, DISTIL: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Add a tile of a teacher to its running maximum m_t, sum s and distance d, (LANES,) each; return these.

    Without KL distillation s sums up NaNs alone, for `is_right`.
    """
    top = tl.max(t, 1 if ALIGNED else 0)
    before = tl.maximum(before, tl.where(all_before, top, -float("inf")))
    m = tl.maximum(m_t, top)
    if DISTIL and DISTANCE == "kl":
        a = rounded_product(m, per_tau)
        e = tl.exp2(tl.fma(t, per_tau, -spread(a, ALIGNED)))
        shrink = rescaling(m_t, per_tau, a)
        s = s * shrink + _total(e, ALIGNED)
        d = shrink * d + _total(e * difference_at(e, t, z, MASKED), ALIGNED)
    else:
        s += _total(not_a_number(t), ALIGNED)
        if DISTIL:
            difference = difference_of(z, t, live)
            d += _total(difference * difference, ALIGNED)
    return m, s, d, before


@triton.jit
def _total(x, ALIGNED: tl.constexpr):
    """Sum up a tile to (LANES,)."""
    return tl.sum(x, 1 if ALIGNED else 0)


@triton.jit
def store_gradient(
    z_ptr, old_ptr, ref_ptr, grad_ptr, lane, each, start,
    # Exponents and factors: of the student at temperature 1 and at tau, old and new part; of both teachers.
    a_b, a_bn, f_bo, f_bn, a_zo, a_zn, f_zo, f_zn, a_old, f_old, a_ref, f_ref, per_tau,
    # The tile may have old columns, new columns, and columns to be masked.
    HAS_OLD: tl.constexpr, HAS_NEW: tl.constexpr, MASKED: tl.constexpr,
    C: tl.constexpr, C_OLD: tl.constexpr, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr,
    DISTIL_REF: tl.constexpr, Z: tl.constexpr, OLD: tl.constexpr, REF: tl.constexpr, GRAD: tl.constexpr,
    EVICT: tl.constexpr, PAST: tl.constexpr, POWER: tl.constexpr,
):  # fmt: skip
    """Store the gradient of a tile, e_b f_b + e_z f_z + e_old f_old + e_ref f_ref, without the label's -w_ce.

    e_old and e_ref are exponentials with KL, and differences to the teachers with logit matching.
    """
    col = start + lane + each
    is_old = col < C_OLD
    of_b, f_b, a_z, f_z = a_bn, f_bn, a_zn, f_zn
    if HAS_OLD:
        of_b, f_b, a_z, f_z = a_b, f_bo, a_zo, f_zo
        if HAS_NEW:
            of_b, f_b = tl.where(is_old, a_b, a_bn), tl.where(is_old, f_bo, f_bn)
            a_z, f_z = tl.where(is_old, a_zo, a_zn), tl.where(is_old, f_zo, f_zn)
    z = load_tile(z_ptr, lane, each, start, Z, C, not MASKED, EVICT)
    if POWER:
        e = tl.exp2(tl.fma(z, per_tau, -a_z))
        grad = e * tl.fma(power(e, POWER - 1), f_b, f_z)
    else:
        grad = tl.exp2(tl.fma(z, LOG2E, -of_b)) * f_b
        if DISTANCE == "kl" and (DISTIL_OLD or DISTIL_REF):
            grad += tl.exp2(tl.fma(z, per_tau, -a_z)) * f_z
    if DISTIL_OLD:
        old = load_tile(old_ptr, lane, each, start, OLD, C_OLD, not MASKED, EVICT)
        if DISTANCE == "kl":
            grad += tl.exp2(tl.fma(old, per_tau, -a_old)) * f_old
        else:
            grad += difference_of(z, old, is_old) * f_old
    if DISTIL_REF:
        ref = load_tile(ref_ptr, lane, each, start, REF, C, not MASKED, EVICT)
        if DISTANCE == "kl":
            grad += tl.exp2(tl.fma(ref, per_tau, -a_ref)) * f_ref
        else:
            grad += difference_of(z, ref, col < C) * f_ref
    grad = grad.to(grad_ptr.dtype.element_ty)
    if MASKED:
        tl.store((grad_ptr + start) + lane + each, grad, mask=col < GRAD[2], cache_modifier=PAST)
    else:
        tl.store((grad_ptr + start) + lane + each, grad, cache_modifier=PAST)


@triton.jit
def store_zeros(grad_ptr, lane, each, start, GRAD: tl.constexpr):
    """Store zeros as the gradient of a tile, for an ignored row."""
    zeros = tl.zeros_like(lane + each).to(grad_ptr.dtype.element_ty)
    tl.store((grad_ptr + start) + lane + each, zeros, mask=start + lane + each < GRAD[2])
