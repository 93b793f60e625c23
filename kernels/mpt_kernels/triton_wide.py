"""The fused loss of wide rows: one row in many tiles, a pass for the sums and a pass for the gradient."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return"

import triton
import triton.language as tl

from mpt_kernels.triton_parts import (
    LOWEST,
    beats,
    difference_of,
    element,
    exp_scaled,
    load_bias,
    load_inverse_normalizer,
    load_labels,
    load_scale,
    load_tile,
    max8,
    row_terms,
    spread,
    store_terms,
    sum8,
    tile_columns,
    weighted,
)


@triton.jit(do_not_specialize=["n_rows"])
def wide_rows(
    z_ptr, y_ptr, old_ptr, ref_ptr, k_ptr, normalizer_ptr, scale_ptr, grad_ptr, rows_ptr,
    n_rows, k, inverse_normalizer, scale, alpha, beta, ce_focal_weight, inv_tau,
    old_value, old_slope, ref_value, ref_slope, ignore_index,
    C: tl.constexpr, C_OLD: tl.constexpr, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr,
    DISTIL_REF: tl.constexpr, Z: tl.constexpr, OLD: tl.constexpr, REF: tl.constexpr, GRAD: tl.constexpr,
    Y_STRIDE: tl.constexpr, K_STRIDE: tl.constexpr, LANES: tl.constexpr, EACH: tl.constexpr,
    ALIGNED: tl.constexpr,
):  # fmt: skip
    """One row a program, in tiles of LANES x EACH classes: a first pass for the sums, a second for the gradient.

    Each lane keeps maxima and sums of its own (online softmax, Milakov and Gimelshein 2018) and they are merged
    once, at the end: nothing is exchanged between threads inside the loops. The second pass runs backwards, so that
    it begins with what the cache still holds.
    """
    row = tl.program_id(0).to(tl.int64)
    y, valid, known = load_labels(y_ptr + row * Y_STRIDE, True, ignore_index, C)
    bias = load_bias(k_ptr, row * K_STRIDE, k, True)
    mult = load_inverse_normalizer(normalizer_ptr, inverse_normalizer) * load_scale(scale_ptr, scale)

    z_ptr += row * Z[0]
    z_y = tl.load(z_ptr + element(y, Z[1])).to(tl.float32)
    old_y = 0.0
    if old_ptr is not None:
        old_ptr += row * OLD[0]
        old_y = tl.load(old_ptr + element(tl.minimum(y, C_OLD - 1), OLD[1])).to(tl.float32)
    ref_y = 0.0
    if ref_ptr is not None:
        ref_ptr += row * REF[0]
        ref_y = tl.load(ref_ptr + element(y, REF[1])).to(tl.float32)

    m_zo, b_zo, s_zo, m_old, s_old, d_old, m_ro, s_ro, d_ro, z_lost, old_lost, ref_lost = _first_pass(
        z_ptr, old_ptr, ref_ptr, y, z_y, old_y, ref_y, inv_tau, 0, C_OLD,
        C, C_OLD, DISTANCE, DISTIL_OLD, DISTIL_REF, Z, OLD, REF, LANES, EACH, ALIGNED,
    )  # fmt: skip
    m_zn, b_zn, s_zn, _, _, _, m_rn, s_rn, d_rn, z_lost_n, _, ref_lost_n = _first_pass(
        z_ptr, None, ref_ptr, y, z_y, old_y, ref_y, inv_tau, C_OLD, C,
        C, C_OLD, DISTANCE, False, DISTIL_REF, Z, OLD, REF, LANES, EACH, ALIGNED,
    )  # fmt: skip
    z_right = known & (tl.maximum(z_lost, z_lost_n) <= 0.0)
    old_right = known & (old_lost <= 0.0) & (y < C_OLD)
    ref_right = known & (tl.maximum(ref_lost, ref_lost_n) <= 0.0)
    m_z = tl.maximum(m_zo, m_zn)
    m_biased = tl.maximum(m_zo, m_zn + bias)
    scale_o, scale_n = exp_scaled(m_zo - m_biased, 1.0), exp_scaled(m_zn + bias - m_biased, 1.0)
    s_biased = b_zo * scale_o + b_zn * scale_n
    m_ref = tl.maximum(m_ro, m_rn)
    s_ref, d_ref = 0.0, d_ro + d_rn
    if DISTANCE == "kl":
        part_o, part_n = exp_scaled(m_ro - m_ref, inv_tau), exp_scaled(m_rn - m_ref, inv_tau)
        s_ref = s_ro * part_o + s_rn * part_n
        d_ref = weighted(part_o, d_ro, 0.0) + weighted(part_n, d_rn, 0.0)

    ce, fd_old, fd_ref, w_ce, w_old, w_ref, s_z = row_terms(
        z_y + tl.where(y < C_OLD, 0.0, bias), m_biased, s_biased, m_zo, s_zo, m_zn, s_zn, m_z,
        m_old, s_old, d_old, old_right, m_ref, s_ref, d_ref, ref_right, known,
        alpha, beta, ce_focal_weight, inv_tau, old_value, ref_value,
        old_ptr is not None, DISTANCE, DISTIL_OLD, DISTIL_REF,
    )  # fmt: skip
    store_terms(rows_ptr, row, n_rows, True, valid, ce, fd_old, fd_ref, z_right, old_right, ref_right)

    w_ce, w_old, w_ref = w_ce * mult, w_old * old_slope * mult, w_ref * ref_slope * mult
    a_old, a_ref = w_old, w_ref
    a_zo, a_zn = 0.0, 0.0
    if DISTANCE == "kl":
        if DISTIL_OLD:
            a_zo += w_old / s_zo
            a_old = -w_old / s_old
        if DISTIL_REF:
            a_zo += w_ref * exp_scaled(m_zo - m_z, inv_tau) / s_z
            a_zn += w_ref * exp_scaled(m_zn - m_z, inv_tau) / s_z
            a_ref = -w_ref / s_ref
    grad_ptr += row * GRAD[0]
    _second_pass(
        z_ptr, None, ref_ptr, grad_ptr, y, valid, w_ce, w_ce * scale_n / s_biased, m_zn, a_zn, m_old, a_old,
        m_ref, a_ref, inv_tau, C_OLD, C,
        C, C_OLD, DISTANCE, False, DISTIL_REF, Z, OLD, REF, GRAD, LANES, EACH, ALIGNED,
    )  # fmt: skip
    _second_pass(
        z_ptr, old_ptr, ref_ptr, grad_ptr, y, valid, w_ce, w_ce * scale_o / s_biased, m_zo, a_zo, m_old, a_old,
        m_ref, a_ref, inv_tau, 0, C_OLD,
        C, C_OLD, DISTANCE, DISTIL_OLD, DISTIL_REF, Z, OLD, REF, GRAD, LANES, EACH, ALIGNED,
    )  # fmt: skip


@triton.jit
def _first_pass(
    z_ptr, old_ptr, ref_ptr, y, z_y, old_y, ref_y, inv_tau, LOW: tl.constexpr, HIGH: tl.constexpr,
    C: tl.constexpr, C_OLD: tl.constexpr, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr,
    DISTIL_REF: tl.constexpr, Z: tl.constexpr, OLD: tl.constexpr, REF: tl.constexpr,
    LANES: tl.constexpr, EACH: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Maxima and sums over columns LOW..HIGH-1: of z at 1 and at tau, of each teacher, and who beats the label.

    A distance is the sum of exp((t - m_t) / tau) (t - z) for KL, and of (z - t)^2 for logit matching.
    """
    tile = tile_columns(LANES, EACH, ALIGNED)
    AXIS: tl.constexpr = 1 if ALIGNED else 0
    m_z = tl.full((LANES,), LOWEST, tl.float32)
    m_old, m_ref = m_z, m_z
    zero = tl.zeros((LANES,), tl.float32)
    b_z, s_z, s_old, d_old, s_ref, d_ref, z_lost, old_lost, ref_lost = (
        zero, zero, zero, zero, zero, zero, zero, zero, zero,
    )  # fmt: skip
    # From a multiple of 8, so that loads stay aligned where the new classes begin at an odd column.
    for start in range(LOW // 8 * 8, HIGH, LANES * EACH):
        col = start + tile
        live = (col >= LOW) & (col < HIGH)
        z = tl.where(live, load_tile(z_ptr, col, True, Z, C), -float("inf"))
        z_lost = tl.maximum(z_lost, tl.max(beats(z, z_y, col, y, live), AXIS))
        m = tl.maximum(m_z, tl.max(z, AXIS))
        distance = z - spread(m, ALIGNED)
        b_z = b_z * exp_scaled(m_z - m, 1.0) + tl.sum(exp_scaled(distance, 1.0), AXIS)
        if DISTANCE == "kl" and (DISTIL_OLD or DISTIL_REF):
            s_z = s_z * exp_scaled(m_z - m, inv_tau) + tl.sum(exp_scaled(distance, inv_tau), AXIS)
        m_z = m
        if old_ptr is not None:
            old = load_tile(old_ptr, col, True, OLD, C_OLD)
            old_lost = tl.maximum(old_lost, tl.max(beats(old, old_y, col, y, live), AXIS))
            if DISTIL_OLD:
                m_old, s_old, d_old = _accumulate(
                    z, old, live, m_old, s_old, d_old, inv_tau, DISTANCE, AXIS, ALIGNED
                )
        if ref_ptr is not None:
            ref = tl.where(live, load_tile(ref_ptr, col, True, REF, C), -float("inf"))
            ref_lost = tl.maximum(ref_lost, tl.max(beats(ref, ref_y, col, y, live), AXIS))
            if DISTIL_REF:
                m_ref, s_ref, d_ref = _accumulate(
                    z, ref, live, m_ref, s_ref, d_ref, inv_tau, DISTANCE, AXIS, ALIGNED
                )
    top_z, top_old, top_ref, z_lost, old_lost, ref_lost, _, _ = max8(
        m_z, m_old, m_ref, z_lost, old_lost, ref_lost, zero, zero, 0
    )
    b_z *= exp_scaled(m_z - top_z, 1.0)
    s_z *= exp_scaled(m_z - top_z, inv_tau)
    if DISTANCE == "kl":
        part_old, part_ref = exp_scaled(m_old - top_old, inv_tau), exp_scaled(m_ref - top_ref, inv_tau)
        s_old, d_old = s_old * part_old, weighted(part_old, d_old, 0.0)
        s_ref, d_ref = s_ref * part_ref, weighted(part_ref, d_ref, 0.0)
    b_z, s_z, s_old, d_old, s_ref, d_ref, _, _ = sum8(b_z, s_z, s_old, d_old, s_ref, d_ref, zero, zero, 0)
    return top_z, b_z, s_z, top_old, s_old, d_old, top_ref, s_ref, d_ref, z_lost, old_lost, ref_lost


@triton.jit
def _accumulate(
    z, t, live, m, s, d, inv_tau, DISTANCE: tl.constexpr, AXIS: tl.constexpr, ALIGNED: tl.constexpr
):
    """A tile of a teacher into its running maximum m, sum s and distance d, (LANES,) each."""
    if DISTANCE == "kl":
        top = tl.maximum(m, tl.max(t, AXIS))
        e = exp_scaled(t - spread(top, ALIGNED), inv_tau)
        shrink = exp_scaled(m - top, inv_tau)
        s = s * shrink + tl.sum(e, AXIS)
        d = weighted(shrink, d, 0.0) + tl.sum(weighted(e, t, z), AXIS)
        m = top
    if DISTANCE == "lm":
        difference = difference_of(z, t, live)
        d += tl.sum(difference * difference, AXIS)
    return m, s, d


@triton.jit
def _second_pass(
    z_ptr, old_ptr, ref_ptr, grad_ptr, y, valid, w_ce, a_ce, m_z, a_z, m_old, a_old, m_ref, a_ref, inv_tau,
    LOW: tl.constexpr, HIGH: tl.constexpr,
    C: tl.constexpr, C_OLD: tl.constexpr, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr,
    DISTIL_REF: tl.constexpr, Z: tl.constexpr, OLD: tl.constexpr, REF: tl.constexpr, GRAD: tl.constexpr,
    LANES: tl.constexpr, EACH: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """The gradient of columns LOW..HIGH-1, last tile first: each a_x is what its exponential (KL) or difference
    (logit matching) is multiplied by."""
    tile = tile_columns(LANES, EACH, ALIGNED)
    BEGIN: tl.constexpr = LOW // 8 * 8
    STEP: tl.constexpr = LANES * EACH
    TILES: tl.constexpr = (HIGH - BEGIN + STEP - 1) // STEP
    for i in range(TILES):
        col = BEGIN + (TILES - 1 - i) * STEP + tile
        live = (col >= LOW) & (col < HIGH)
        z = load_tile(z_ptr, col, True, Z, C)
        grad = exp_scaled(z - m_z, 1.0) * a_ce - tl.where(col == y, w_ce, 0.0)
        if DISTANCE == "kl" and (DISTIL_OLD or DISTIL_REF):
            grad += exp_scaled(z - m_z, inv_tau) * a_z
        if DISTIL_OLD:
            old = load_tile(old_ptr, col, True, OLD, C_OLD)
            if DISTANCE == "kl":
                grad += exp_scaled(old - m_old, inv_tau) * a_old
            else:
                grad += difference_of(z, old, live) * a_old
        if DISTIL_REF:
            ref = load_tile(ref_ptr, col, True, REF, C)
            if DISTANCE == "kl":
                grad += exp_scaled(ref - m_ref, inv_tau) * a_ref
            else:
                grad += difference_of(z, ref, live) * a_ref
        grad = tl.where(valid, grad, 0.0).to(grad_ptr.dtype.element_ty)
        # Padding of the gradient's rows is ours to write; the last tile of the new classes does.
        tl.store(grad_ptr + col, grad, mask=(col >= LOW) & (col < (GRAD[2] if HIGH == C else HIGH)))
