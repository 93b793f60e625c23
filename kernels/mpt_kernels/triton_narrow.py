"""Device code of the fused loss for narrow rows: a row is held in registers, and every logit read once."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return,assignment"

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from mpt_kernels.triton_again import are_finite, sum_again
from mpt_kernels.triton_eight import max8, sum8
from mpt_kernels.triton_parts import (
    LOG2E,
    difference_at,
    difference_of,
    element,
    exponents,
    is_right,
    load_bias,
    load_inverse_normalizer,
    load_labels,
    load_scale,
    load_tile,
    not_a_number,
    own_exponent,
    own_gradient,
    power,
    rounded_product,
    row_terms,
    weigh,
)
from mpt_kernels.triton_sums import store_sums

# Tried on an H200 at 4,096 x 1,000 in float32, in place of 18.8 microseconds: fewer registers, so that 14 or
# 16 warps fit (20.0 and more); two warps a row (21.2 and more); programs that stay, and load the next row by
# asynchronous copies while they compute one (21.8, where 21.0 was the time without). A warp does 700 to 800
# instructions for a row whatever its number of classes; loads and stores alone run at a copy's speed.


@triton.jit(do_not_specialize=["n_rows"])
def narrow_rows(
    # Read: logits of the student, labels, logits of both teachers; and where not None, k and weight of each
    # row, normaliser, scale of the gradient.
    z_ptr, y_ptr, old_ptr, ref_ptr, k_ptr, weight_ptr, normalizer_ptr, scale_ptr,
    # Written: gradient, sums of each program.
    grad_ptr, sums_ptr,
    # The number of rows, and numbers in place of tensors that are None.
    n_rows, k, inverse_normalizer, scale,
    # The settings; factors of each teacher's distance (value) and of its derivative (slope).
    alpha, beta, ce_focal_weight, inv_tau, old_value, old_slope, ref_value, ref_slope, ignore_index,
    C: tl.constexpr, C_OLD: tl.constexpr, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr,
    DISTIL_REF: tl.constexpr,
    # `row_layout` of the logits of each model and of the gradient.
    Z: tl.constexpr, OLD: tl.constexpr, REF: tl.constexpr, GRAD: tl.constexpr,
    Y_STRIDE: tl.constexpr, K_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr,
    # Rows a program; lanes a row; columns a lane and tile.
    ROWS: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr,
    # tau if that is a small integer, else 0: an exponential at temperature 1 is that at tau to this power.
    # READY: the launch was made ready before the last one ended, and the next one may be made ready now.
    POWER: tl.constexpr, READY: tl.constexpr,
):  # fmt: skip
    """Compute terms, counts and gradient of ROWS rows in each program; all tiles of a row stay in registers.

    A tile has LANES x VECTOR columns. At compile time it is known whether a tile is old, new, both, or the
    end of a row. Only tiles that are both, or the end, are masked. `triton_parts` explains the names.
    """
    if READY:
        gdc_launch_dependents()
        gdc_wait()
    TILE: tl.constexpr = LANES * VECTOR
    TILES: tl.constexpr = (C + TILE - 1) // TILE
    OLD_TILES: tl.constexpr = (C_OLD + TILE - 1) // TILE
    # 1. The rows: label y, bias k, and mult = weight * scale / normaliser. If the last program has too few
    #    rows, it computes the last row again, and writes the same results again.
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.minimum(place, n_rows - 1).to(tl.int64)
    y, valid, known = load_labels(y_ptr + row * Y_STRIDE, ignore_index, C)
    bias = load_bias(k_ptr, row * K_STRIDE, k)
    mult = load_inverse_normalizer(normalizer_ptr, inverse_normalizer) * load_scale(scale_ptr, scale)
    mult = weigh(mult, weight_ptr, row * WEIGHT_STRIDE)

    # 2. Every logit is loaded, once, into z, old and ref, before anything waits for a label.
    col = tl.arange(0, TILE)[None, :]
    z_at = z_ptr + (row * Z[0])[:, None]
    old_at, ref_at = z_at, z_at
    if old_ptr is not None:
        old_at = old_ptr + (row * OLD[0])[:, None]
    if ref_ptr is not None:
        ref_at = ref_ptr + (row * REF[0])[:, None]
    z, old, ref = (), (), ()
    for i in tl.static_range(TILES):
        z += (load_tile(z_at, col, 0, i * TILE, Z, C, (i + 1) * TILE <= C, ""),)
        if old_ptr is not None and i < OLD_TILES:
            old += (load_tile(old_at, col, 0, i * TILE, OLD, C_OLD, (i + 1) * TILE <= C_OLD, ""),)
        if ref_ptr is not None:
            ref += (load_tile(ref_at, col, 0, i * TILE, REF, C, (i + 1) * TILE <= C, ""),)

    # 3. The label's own logits, which the cache holds by now; and among the columns that one lane loads with
    #    it, the maxima before the label.
    label = y[:, None]
    z_y = tl.load(z_ptr + row * Z[0] + element(y, Z[1])).to(tl.float32)
    none = tl.full((ROWS, LANES), -float("inf"), tl.float32)
    m_zo, m_zn, m_old, m_ref = none, none, none, none
    z_before = _max_before_label(z_at, label, Z, LANES, VECTOR)
    old_before, ref_before, old_y, ref_y = none, none, z_y, z_y
    if old_ptr is not None:
        old_y = tl.load(old_ptr + row * OLD[0] + element(tl.minimum(y, C_OLD - 1), OLD[1])).to(tl.float32)
        old_before = _max_before_label(old_at, tl.minimum(label, C_OLD), OLD, LANES, VECTOR)
    if ref_ptr is not None:
        ref_y = tl.load(ref_ptr + row * REF[0] + element(y, REF[1])).to(tl.float32)
        ref_before = _max_before_label(ref_at, label, REF, LANES, VECTOR)
    # m_x = max x_j of each part, for each lane by itself. A lane's columns of tile i all lie before the label
    # if i * TILE is at most `whole`.
    whole = label - VECTOR - tl.arange(0, LANES)[None, :] * VECTOR
    # The maxima over the tiles whose columns all lie before the label.
    until_zo, until_zn, until_old, until_ref = none, none, none, none
    for i in tl.static_range(TILES):
        before = i * TILE <= whole
        top = _max(z[i], LANES, VECTOR)
        if (i + 1) * TILE <= C_OLD:
            m_zo = tl.maximum(m_zo, top)
        elif i * TILE >= C_OLD:
            m_zn = tl.maximum(m_zn, top)
        else:
            is_old = col < C_OLD - i * TILE
            m_zo = tl.maximum(m_zo, _max(tl.where(is_old, z[i], -float("inf")), LANES, VECTOR))
            m_zn = tl.maximum(m_zn, _max(tl.where(is_old, -float("inf"), z[i]), LANES, VECTOR))
        if i < OLD_TILES:
            until_zo = tl.where(before, m_zo, until_zo)
        if (i + 1) * TILE > C_OLD:
            until_zn = tl.where(before, m_zn, until_zn)
        if old_ptr is not None and i < OLD_TILES:
            m_old = tl.maximum(m_old, _max(old[i], LANES, VECTOR))
            until_old = tl.where(before, m_old, until_old)
        if ref_ptr is not None:
            m_ref = tl.maximum(m_ref, _max(ref[i], LANES, VECTOR))
            until_ref = tl.where(before, m_ref, until_ref)

    # 4. The maxima of all lanes, and a = m c with c = log2(e) / tau; at temperature 1 with the bias, one
    #    scale of both parts, which is less for new classes, since their exponents are greater by the bias.
    z_before = tl.maximum(z_before, tl.maximum(until_zo, until_zn))
    old_before, ref_before = tl.maximum(old_before, until_old), tl.maximum(ref_before, until_ref)
    m_zo, m_zn, m_old, m_ref, z_before, old_before, ref_before, _ = max8(
        m_zo, m_zn, m_old, m_ref, z_before, old_before, ref_before, none, 1
    )  # fmt: skip
    per_tau = inv_tau * LOG2E
    bias = rounded_product(bias, LOG2E)
    a_b = tl.maximum(exponents(m_zo, LOG2E), exponents(m_zn, LOG2E) + bias)
    a_bn = a_b - bias
    a_zo, a_zn = exponents(m_zo, per_tau), exponents(m_zn, per_tau)
    a_old, a_ref = exponents(m_old, per_tau), exponents(m_ref, per_tau)
    if POWER:
        # Factors from e_j^tau to the exponential at temperature 1, which are at most 1.
        r_bo, r_bn = tl.exp2(tl.fma(a_zo, POWER, -a_b)), tl.exp2(tl.fma(a_zn, POWER, -a_bn))
    # 5. Sums over columns: b = sum_j e_j at temperature 1, s = sum_j e_j at tau with e_j = 2^(x_j c - a), and
    #    d = sum_j e_j (u_j - v_j), u of the teacher, v of the student (KL), or d = sum_j (z_j - t_j)^2 (LM).
    #    The exponentials stay in registers for the gradient.
    zero = tl.zeros((ROWS, LANES), tl.float32)
    b, s_zo, s_zn, s_old, s_ro, s_rn = zero, zero, zero, zero, zero, zero
    # With a sum for each class of a lane's tile, a product and its addition are one instruction. For 8
    # classes these sums would take so many registers that fewer warps fit.
    d_old = tl.zeros((ROWS, TILE), tl.float32) if VECTOR < 8 else zero
    d_ref = d_old
    e_b, e_z, e_old, e_ref = (), (), (), ()
    for i in tl.static_range(TILES):
        is_old = col < C_OLD - i * TILE
        if (i + 1) * TILE <= C_OLD:
            of_b, of_z = a_b[:, None], a_zo[:, None]
        elif i * TILE >= C_OLD:
            of_b, of_z = a_bn[:, None], a_zn[:, None]
        else:
            of_b = tl.where(is_old, a_b[:, None], a_bn[:, None])
            of_z = tl.where(is_old, a_zo[:, None], a_zn[:, None])
        if not POWER:
            e = tl.exp2(tl.fma(z[i], LOG2E, -of_b))
            e_b += (e,)
            b += _sum(e, LANES, VECTOR)
        if DISTANCE == "kl" and (DISTIL_OLD or DISTIL_REF):
            v = tl.fma(z[i], per_tau, -of_z)
            e = tl.exp2(v)
            e_z += (e,)
            if POWER:
                if (i + 1) * TILE <= C_OLD:
                    b = tl.fma(_sum(power(e, POWER), LANES, VECTOR), r_bo[:, None], b)
                elif i * TILE >= C_OLD:
                    b = tl.fma(_sum(power(e, POWER), LANES, VECTOR), r_bn[:, None], b)
                else:
                    b += _sum(power(e, POWER) * tl.where(is_old, r_bo[:, None], r_bn[:, None]), LANES, VECTOR)
            s_zo, s_zn = _add(s_zo, s_zn, e, is_old, i * TILE, TILE, C_OLD, LANES, VECTOR)
            if DISTIL_OLD and i < OLD_TILES:
                u = tl.fma(old[i], per_tau, -a_old[:, None])
                e = tl.exp2(u)
                e_old += (e,)
                s_old += _sum(e, LANES, VECTOR)
                d_old = _add_product(d_old, e, difference_at(e, u, v, (i + 1) * TILE > C_OLD), LANES, VECTOR)
            if DISTIL_REF:
                u = tl.fma(ref[i], per_tau, -a_ref[:, None])
                e = tl.exp2(u)
                e_ref += (e,)
                s_ro, s_rn = _add(s_ro, s_rn, e, is_old, i * TILE, TILE, C_OLD, LANES, VECTOR)
                d_ref = _add_product(d_ref, e, difference_at(e, u, v, (i + 1) * TILE > C), LANES, VECTOR)
        if DISTANCE == "lm":
            if DISTIL_OLD and i < OLD_TILES:
                e = difference_of(z[i], old[i], is_old)
                e_old += (e,)
                d_old = _add_product(d_old, e, e, LANES, VECTOR)
            if DISTIL_REF:
                e = difference_of(z[i], ref[i], i * TILE + col < C)
                e_ref += (e,)
                d_ref = _add_product(d_ref, e, e, LANES, VECTOR)
    # For `is_right`: the NaNs of a teacher that has no exponentials.
    if old_ptr is not None and not (DISTIL_OLD and DISTANCE == "kl"):
        for i in tl.static_range(OLD_TILES):
            s_old += _sum(not_a_number(old[i]), LANES, VECTOR)
    if ref_ptr is not None and not (DISTIL_REF and DISTANCE == "kl"):
        for i in tl.static_range(TILES):
            s_rn += _sum(not_a_number(ref[i]), LANES, VECTOR)
    if VECTOR < 8:
        d_old, d_ref = _sum(d_old, LANES, VECTOR), _sum(d_ref, LANES, VECTOR)
    b, s_zo, s_zn, s_old, s_ro, s_rn, d_old, d_ref = sum8(b, s_zo, s_zn, s_old, s_ro, s_rn, d_old, d_ref, 1)
    if DISTANCE == "kl" and (DISTIL_OLD or DISTIL_REF):
        finite = are_finite(d_old, d_ref)
        if tl.min(finite.to(tl.int32), 0) == 0:
            old_again, ref_again = sum_again(
                z_at, old_at, ref_at, a_zo[:, None], a_zn[:, None], a_old[:, None], a_ref[:, None], per_tau,
                ROWS, LANES, C, C_OLD, DISTIL_OLD, DISTIL_REF, Z, OLD, REF,
            )  # fmt: skip
            d_old, d_ref = tl.where(finite, d_old, old_again), tl.where(finite, d_ref, ref_again)
    # 6. Right predictions: argmax_j x_j = y.
    is_old_label = y < C_OLD
    z_right = known & is_right(z_y, tl.maximum(m_zo, m_zn), z_before, b)
    old_right = known & is_old_label & is_right(old_y, m_old, old_before, s_old)
    ref_right = known & is_right(ref_y, m_ref, ref_before, s_ro + s_rn)

    # 7. The terms of Eq. 1 to 6, and the factors f of the exponentials (KL) or differences (LM) in the
    #    gradient.
    own = own_exponent(z_y, is_old_label, a_b, a_bn, a_zo, a_zn, per_tau, POWER)
    ce, fd_old, fd_ref, f_b, f_zo, f_zn, w_ce, f_old, f_ref = row_terms(
        own, b, a_zo, a_zn, s_zo, s_zn, s_old, d_old, old_right, s_ro, s_rn, d_ref, ref_right, known,
        alpha, beta, ce_focal_weight, old_value, old_slope, ref_value, ref_slope, mult,
        old_ptr is not None, C_OLD, DISTANCE, DISTIL_OLD, DISTIL_REF,
    )  # fmt: skip
    ce = weigh(ce, weight_ptr, row * WEIGHT_STRIDE)
    fd_old = weigh(fd_old, weight_ptr, row * WEIGHT_STRIDE)
    fd_ref = weigh(fd_ref, weight_ptr, row * WEIGHT_STRIDE)
    f_bo, f_bn = f_b, f_b
    if POWER:
        f_bo, f_bn = f_b * r_bo, f_b * r_bn
    # 8. The gradient of each logit, without the label's -w_ce: e_b f_b + e_z f_z + e_old f_old + e_ref f_ref.
    grad_at = grad_ptr + (row * GRAD[0])[:, None] + col
    for i in tl.static_range(TILES):
        if (i + 1) * TILE <= C_OLD:
            of_b, of_z = f_bo[:, None], f_zo[:, None]
        elif i * TILE >= C_OLD:
            of_b, of_z = f_bn[:, None], f_zn[:, None]
        else:
            is_old = col < C_OLD - i * TILE
            of_b = tl.where(is_old, f_bo[:, None], f_bn[:, None])
            of_z = tl.where(is_old, f_zo[:, None], f_zn[:, None])
        if POWER:
            grad = e_z[i] * tl.fma(power(e_z[i], POWER - 1), of_b, of_z)
        else:
            grad = e_b[i] * of_b
            if DISTANCE == "kl" and (DISTIL_OLD or DISTIL_REF):
                grad += e_z[i] * of_z
        if DISTIL_OLD and i < OLD_TILES:
            grad += e_old[i] * f_old[:, None]
        if DISTIL_REF:
            grad += e_ref[i] * f_ref[:, None]
        grad = grad.to(grad_ptr.dtype.element_ty)
        within = i * TILE + col < GRAD[2]
        tl.store(grad_at + i * TILE, grad, mask=within & valid[:, None])
        tl.store(grad_at + i * TILE, tl.zeros_like(grad), mask=within & (valid[:, None] == 0))
    # 9. The gradient of the label's own logit, with -w_ce, written over that of step 8.
    own = own_gradient(
        own, z_y, old_y, ref_y, is_old_label, known, a_zo, a_zn, a_old, a_ref,
        f_b, f_zo, f_zn, w_ce, f_old, f_ref, per_tau, DISTANCE, DISTIL_OLD, DISTIL_REF,
    )  # fmt: skip
    tl.debug_barrier()
    tl.store(grad_ptr + row * GRAD[0] + y, own.to(grad_ptr.dtype.element_ty), mask=valid)
    # 10. The sums of these rows.
    store_sums(sums_ptr, ce, fd_old, fd_ref, z_right, old_right, ref_right, valid & (place < n_rows))


@triton.jit
def _max_before_label(row_ptr, label, LAYOUT: tl.constexpr, LANES: tl.constexpr, VECTOR: tl.constexpr):
    """Compute (R, LANES) maxima over those columns before the label that are loaded together with it."""
    WIDTH: tl.constexpr = max(LANES, VECTOR)
    col = label // VECTOR * VECTOR + tl.arange(0, WIDTH)[None, :]
    x = tl.load(row_ptr + element(col, LAYOUT[1]), mask=col < label, other=-float("inf")).to(tl.float32)
    return tl.max(tl.reshape(x, (x.shape[0], LANES, WIDTH // LANES)), 2)


@triton.jit
def _add(
    of_old, of_new, x, is_old, START: tl.constexpr, TILE: tl.constexpr, C_OLD: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Add x, of columns START..START+TILE-1, to the sums of the old and of the new part; return both sums."""
    if START + TILE <= C_OLD:
        of_old += _sum(x, LANES, VECTOR)
    elif START >= C_OLD:
        of_new += _sum(x, LANES, VECTOR)
    else:
        of_old += _sum(tl.where(is_old, x, 0.0), LANES, VECTOR)
        of_new += _sum(tl.where(is_old, 0.0, x), LANES, VECTOR)
    return of_old, of_new


@triton.jit
def _add_product(total, x, y, LANES: tl.constexpr, VECTOR: tl.constexpr):
    """Add the products of a tile to a sum for each of its columns or, if VECTOR is 8, for each lane."""
    if VECTOR < 8:
        total = tl.fma(x, y, total)
    else:
        total += _sum(x * y, LANES, VECTOR)
    return total


@triton.jit
def _sum(x, LANES: tl.constexpr, VECTOR: tl.constexpr):
    """Sum up the columns that each lane holds of a tile: (R, LANES * VECTOR) to (R, LANES)."""
    return tl.sum(tl.reshape(x, (x.shape[0], LANES, VECTOR)), 2)


@triton.jit
def _max(x, LANES: tl.constexpr, VECTOR: tl.constexpr):
    """Take the maximum over the columns that each lane holds of a tile, like `_sum`."""
    return tl.max(tl.reshape(x, (x.shape[0], LANES, VECTOR)), 2)
