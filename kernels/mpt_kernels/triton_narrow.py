"""The fused loss of narrow rows: each row whole in registers, every logit read once."""

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
    store_terms,
    sum8,
    weighted,
)


@triton.jit(do_not_specialize=["n_rows"])
def narrow_rows(
    z_ptr, y_ptr, old_ptr, ref_ptr, k_ptr, normalizer_ptr, scale_ptr, grad_ptr, rows_ptr,
    n_rows, k, inverse_normalizer, scale, alpha, beta, ce_focal_weight, inv_tau,
    old_value, old_slope, ref_value, ref_slope, ignore_index,
    C: tl.constexpr, C_OLD: tl.constexpr, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr,
    DISTIL_REF: tl.constexpr, Z: tl.constexpr, OLD: tl.constexpr, REF: tl.constexpr, GRAD: tl.constexpr,
    Y_STRIDE: tl.constexpr, K_STRIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each whole in registers: every logit is read once. BLOCK >= C is a power of two."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = row < n_rows
    row = row.to(tl.int64)
    y, valid, known = load_labels(y_ptr + row * Y_STRIDE, here, ignore_index, C)
    bias = load_bias(k_ptr, row * K_STRIDE, k, here)
    mult = load_inverse_normalizer(normalizer_ptr, inverse_normalizer) * load_scale(scale_ptr, scale)

    col = tl.arange(0, BLOCK)[None, :]
    label = y[:, None]
    is_old = col < C_OLD
    asked = valid & known
    z = load_tile(z_ptr + row[:, None] * Z[0], col, here[:, None], Z, C)
    z_y = tl.load(z_ptr + row * Z[0] + element(y, Z[1]), mask=asked, other=0.0).to(tl.float32)
    z_lost = beats(z, z_y[:, None], col, label, col < C)
    none = tl.full((ROWS, BLOCK), LOWEST, tl.float32)
    old, old_lost = none, none
    if old_ptr is not None:
        y_old = tl.minimum(y, C_OLD - 1)
        old = load_tile(old_ptr + row[:, None] * OLD[0], col, here[:, None], OLD, C_OLD)
        old_y = tl.load(old_ptr + row * OLD[0] + element(y_old, OLD[1]), mask=asked, other=0.0).to(tl.float32)
        old_lost = beats(old, old_y[:, None], col, label, is_old)
    ref, ref_lost = none, none
    if ref_ptr is not None:
        ref = load_tile(ref_ptr + row[:, None] * REF[0], col, here[:, None], REF, C)
        ref_y = tl.load(ref_ptr + row * REF[0] + element(y, REF[1]), mask=asked, other=0.0).to(tl.float32)
        ref_lost = beats(ref, ref_y[:, None], col, label, col < C)

    m_zo, m_zn, m_old, m_ref, z_lost, old_lost, ref_lost, _ = max8(
        tl.where(is_old, z, LOWEST), tl.where(is_old, LOWEST, z), old, ref, z_lost, old_lost, ref_lost, none, 1
    )  # fmt: skip
    z_right, ref_right = known & (z_lost <= 0.0), known & (ref_lost <= 0.0)
    old_right = known & (old_lost <= 0.0) & (y < C_OLD)
    m_zo, m_zn = tl.maximum(m_zo, LOWEST), tl.maximum(m_zn, LOWEST)
    m_z = tl.maximum(m_zo, m_zn)
    m_biased = tl.maximum(m_zo, m_zn + bias)

    # Exponentials stay in registers for the gradient.
    e_biased = exp_scaled(z + tl.where(is_old, 0.0, bias[:, None]) - m_biased[:, None], 1.0)
    zero = tl.zeros((ROWS, BLOCK), tl.float32)
    e_z, e_old, e_ref, d_old, d_ref = zero, zero, zero, zero, zero
    if DISTANCE == "kl":
        if DISTIL_OLD or DISTIL_REF:
            e_z = exp_scaled(z - tl.where(is_old, m_zo[:, None], m_zn[:, None]), inv_tau)
        if DISTIL_OLD:
            e_old = exp_scaled(old - tl.maximum(m_old, LOWEST)[:, None], inv_tau)
            d_old = weighted(e_old, old, z)
        if DISTIL_REF:
            e_ref = exp_scaled(ref - tl.maximum(m_ref, LOWEST)[:, None], inv_tau)
            d_ref = weighted(e_ref, ref, z)
    if DISTANCE == "lm":
        if DISTIL_OLD:
            e_old = difference_of(z, old, is_old)
            d_old = e_old * e_old
        if DISTIL_REF:
            e_ref = difference_of(z, ref, col < C)
            d_ref = e_ref * e_ref
    s_biased, s_zo, s_zn, s_old, s_ref, d_old, d_ref, _ = sum8(
        e_biased, tl.where(is_old, e_z, 0.0), tl.where(is_old, 0.0, e_z), e_old, e_ref, d_old, d_ref, zero, 1
    )

    ce, fd_old, fd_ref, w_ce, w_old, w_ref, s_z = row_terms(
        z_y + tl.where(y < C_OLD, 0.0, bias), m_biased, s_biased, m_zo, s_zo, m_zn, s_zn, m_z,
        m_old, s_old, d_old, old_right, m_ref, s_ref, d_ref, ref_right, known,
        alpha, beta, ce_focal_weight, inv_tau, old_value, ref_value,
        old_ptr is not None, DISTANCE, DISTIL_OLD, DISTIL_REF,
    )  # fmt: skip
    store_terms(rows_ptr, row, n_rows, here, valid, ce, fd_old, fd_ref, z_right, old_right, ref_right)

    w_ce, w_old, w_ref = w_ce * mult, w_old * old_slope * mult, w_ref * ref_slope * mult
    grad = e_biased * (w_ce / s_biased)[:, None] - tl.where(col == label, w_ce[:, None], 0.0)
    if DISTANCE == "kl":
        if DISTIL_OLD:
            grad += tl.where(is_old, e_z * (w_old / s_zo)[:, None] - e_old * (w_old / s_old)[:, None], 0.0)
        if DISTIL_REF:
            part = tl.where(
                is_old, exp_scaled(m_zo - m_z, inv_tau)[:, None], exp_scaled(m_zn - m_z, inv_tau)[:, None]
            )
            grad += e_z * part * (w_ref / s_z)[:, None] - e_ref * (w_ref / s_ref)[:, None]
    if DISTANCE == "lm":
        if DISTIL_OLD:
            grad += e_old * w_old[:, None]
        if DISTIL_REF:
            grad += e_ref * w_ref[:, None]
    grad = tl.where(valid[:, None], grad, 0.0)
    mask = (col < GRAD[2]) & here[:, None]
    tl.store(grad_ptr + row[:, None] * GRAD[0] + col, grad.to(grad_ptr.dtype.element_ty), mask=mask)
