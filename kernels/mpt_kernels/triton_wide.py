"""Device code of the fused loss for wide rows: many tiles, a pass for the sums and one for the gradient."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return"

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from mpt_kernels.triton_again import are_finite, sum_again
from mpt_kernels.triton_eight import max8, sum8
from mpt_kernels.triton_parts import (
    LOG2E,
    LOWEST,
    element,
    is_right,
    load_bias,
    load_inverse_normalizer,
    load_labels,
    load_scale,
    own_exponent,
    own_gradient,
    rescaling,
    rounded_product,
    row_terms,
    tile_columns,
    weigh,
)
from mpt_kernels.triton_sums import store_sums
from mpt_kernels.triton_tiles import max_before_label, store_gradient, store_zeros, sum_tile


@triton.jit(do_not_specialize=["n_rows"])
def wide_rows(
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
    # Lanes a row; columns that a lane holds of a tile, and whether they are adjacent.
    LANES: tl.constexpr, EACH: tl.constexpr, ALIGNED: tl.constexpr,
    # Hints for the cache: of the first pass's loads, of the second's, and of stores.
    KEEP: tl.constexpr, DROP: tl.constexpr, PAST: tl.constexpr,
    # tau if that is a small integer, else 0: an exponential at temperature 1 is that at tau to this power.
    # READY: the launch was made ready before the last one ended, and the next one may be made ready now.
    POWER: tl.constexpr, READY: tl.constexpr,
):  # fmt: skip
    """Compute terms, counts and gradient of one row in each program, in tiles of LANES x EACH classes.

    The first pass computes sums, the second one the gradient. `triton_parts` explains the names.

    Each lane keeps its own maxima and sums (online softmax, Milakov and Gimelshein 2018), which are merged
    after the pass, so that threads exchange nothing inside the loops. Loops go over tiles that are wholly old
    or wholly new. The tile that is both, and the row's last tile, are computed outside the loops, with masks.
    The second pass runs backwards, to begin with what the cache still holds.
    """
    STEP: tl.constexpr = LANES * EACH
    OLD_END: tl.constexpr = C_OLD // STEP * STEP
    NEW_BEGIN: tl.constexpr = (C_OLD + STEP - 1) // STEP * STEP
    NEW_END: tl.constexpr = C // STEP * STEP
    if READY:
        gdc_launch_dependents()
        gdc_wait()
    # 1. The row: label y, bias k, and mult = weight * scale / normaliser.
    row = tl.program_id(0).to(tl.int64)
    y, valid, known = load_labels(y_ptr + row * Y_STRIDE, ignore_index, C)
    bias = load_bias(k_ptr, row * K_STRIDE, k)
    mult = load_inverse_normalizer(normalizer_ptr, inverse_normalizer) * load_scale(scale_ptr, scale)
    mult = weigh(mult, weight_ptr, row * WEIGHT_STRIDE)
    per_tau = inv_tau * LOG2E

    lane, each = tile_columns(LANES, EACH, ALIGNED)
    z_ptr += row * Z[0]
    if old_ptr is not None:
        old_ptr += row * OLD[0]
    if ref_ptr is not None:
        ref_ptr += row * REF[0]
    # 2. First pass, each lane by itself: m = max_j x_j, b = sum_j e_j at temperature 1, s = sum_j e_j at tau
    #    with e_j = 2^(x_j c - m c), and d = sum_j e_j (t_j - z_j) (KL) or sum_j (z_j - t_j)^2 (LM), old and
    #    new part apart.
    m = tl.full((LANES,), LOWEST, tl.float32)
    o = tl.zeros((LANES,), tl.float32)
    m_zo, b_o, s_zo, m_old, s_old, d_old, m_ro, s_ro, d_ro = m, o, o, m, o, o, m, o, o
    m_zn, b_n, s_zn, m_rn, s_rn, d_rn = m, o, o, m, o, o
    # Of the tiles that wholly lie before the label's own.
    z_before = tl.full((LANES,), -float("inf"), tl.float32)
    old_before, ref_before = z_before, z_before
    for start in tl.range(0, OLD_END, STEP, loop_unroll_factor=2):
        (
            m_zo, b_o, s_zo, m_old, s_old, d_old, m_ro, s_ro, d_ro, z_before, old_before, ref_before
        ) = sum_tile(
            m_zo, b_o, s_zo, m_old, s_old, d_old, m_ro, s_ro, d_ro, z_before, old_before, ref_before,
            z_ptr, old_ptr, ref_ptr, lane, each, start, y, per_tau, 0, C_OLD, False,
            C, C_OLD, DISTANCE, DISTIL_OLD, DISTIL_REF, Z, OLD, REF, STEP, ALIGNED, KEEP, POWER,
        )  # fmt: skip
    if OLD_END < NEW_BEGIN:
        (
            m_zo, b_o, s_zo, m_old, s_old, d_old, m_ro, s_ro, d_ro, z_before, old_before, ref_before
        ) = sum_tile(
            m_zo, b_o, s_zo, m_old, s_old, d_old, m_ro, s_ro, d_ro, z_before, old_before, ref_before,
            z_ptr, old_ptr, ref_ptr, lane, each, OLD_END, y, per_tau, 0, C_OLD, True,
            C, C_OLD, DISTANCE, DISTIL_OLD, DISTIL_REF, Z, OLD, REF, STEP, ALIGNED, KEEP, POWER,
        )  # fmt: skip
        if C_OLD < C:
            m_zn, b_n, s_zn, _, _, _, m_rn, s_rn, d_rn, z_before, _, ref_before = sum_tile(
                m_zn, b_n, s_zn, m_old, s_old, d_old, m_rn, s_rn, d_rn, z_before, old_before, ref_before,
                z_ptr, None, ref_ptr, lane, each, OLD_END, y, per_tau, C_OLD, C, True,
                C, C_OLD, DISTANCE, False, DISTIL_REF, Z, OLD, REF, STEP, ALIGNED, KEEP, POWER,
            )  # fmt: skip
    for start in tl.range(NEW_BEGIN, NEW_END, STEP, loop_unroll_factor=2):
        m_zn, b_n, s_zn, _, _, _, m_rn, s_rn, d_rn, z_before, _, ref_before = sum_tile(
            m_zn, b_n, s_zn, m_old, s_old, d_old, m_rn, s_rn, d_rn, z_before, old_before, ref_before,
            z_ptr, None, ref_ptr, lane, each, start, y, per_tau, C_OLD, C, False,
            C, C_OLD, DISTANCE, False, DISTIL_REF, Z, OLD, REF, STEP, ALIGNED, KEEP, POWER,
        )  # fmt: skip
    if NEW_BEGIN <= NEW_END and NEW_END < C:
        m_zn, b_n, s_zn, _, _, _, m_rn, s_rn, d_rn, z_before, _, ref_before = sum_tile(
            m_zn, b_n, s_zn, m_old, s_old, d_old, m_rn, s_rn, d_rn, z_before, old_before, ref_before,
            z_ptr, None, ref_ptr, lane, each, NEW_END, y, per_tau, C_OLD, C, True,
            C, C_OLD, DISTANCE, False, DISTIL_REF, Z, OLD, REF, STEP, ALIGNED, KEEP, POWER,
        )  # fmt: skip

    # 3. The label's own logits, and the maxima before the label in its tile; the cache holds them by now.
    z_y = tl.load(z_ptr + element(y, Z[1])).to(tl.float32)
    z_before = tl.maximum(z_before, max_before_label(z_ptr, lane, each, y, STEP, Z, C, ALIGNED))
    old_y, ref_y = z_y, z_y
    if old_ptr is not None:
        old_y = tl.load(old_ptr + element(tl.minimum(y, C_OLD - 1), OLD[1])).to(tl.float32)
        before = max_before_label(old_ptr, lane, each, y, STEP, OLD, C_OLD, ALIGNED)
        old_before = tl.maximum(old_before, before)
    if ref_ptr is not None:
        ref_y = tl.load(ref_ptr + element(y, REF[1])).to(tl.float32)
        before = max_before_label(ref_ptr, lane, each, y, STEP, REF, C, ALIGNED)
        ref_before = tl.maximum(ref_before, before)
    # 4. The maxima over all lanes, and a = m c; at temperature 1 with the bias, one scale of both parts,
    #    which is less for new classes. Each lane's sums are rescaled from its own maximum to that of all.
    top_zo, top_zn, top_old, top_ref, z_before, old_before, ref_before, _ = max8(
        m_zo, m_zn, m_old, tl.maximum(m_ro, m_rn), z_before, old_before, ref_before, o, 0
    )
    bias = rounded_product(bias, LOG2E)
    a_b = tl.maximum(rounded_product(top_zo, LOG2E), rounded_product(top_zn, LOG2E) + bias)
    a_bn = a_b - bias
    a_zo, a_zn = rounded_product(top_zo, per_tau), rounded_product(top_zn, per_tau)
    a_old, a_ref = rounded_product(top_old, per_tau), rounded_product(top_ref, per_tau)
    if POWER:
        b = b_o * tl.exp2(tl.fma(rounded_product(m_zo, per_tau), POWER, -a_b))
        b += b_n * tl.exp2(tl.fma(rounded_product(m_zn, per_tau), POWER, -a_bn))
    else:
        b = b_o * rescaling(m_zo, LOG2E, a_b) + b_n * rescaling(m_zn, LOG2E, a_bn)
    s_zo, s_zn = s_zo * rescaling(m_zo, per_tau, a_zo), s_zn * rescaling(m_zn, per_tau, a_zn)
    if DISTANCE == "kl":
        part_old, part_ro = rescaling(m_old, per_tau, a_old), rescaling(m_ro, per_tau, a_ref)
        part_rn = rescaling(m_rn, per_tau, a_ref)
        s_old, s_ro, s_rn = s_old * part_old, s_ro * part_ro, s_rn * part_rn
        d_old, d_ro, d_rn = d_old * part_old, d_ro * part_ro, d_rn * part_rn
    # 5. The sums of all lanes. d of KL becomes sum_j e_j (u_j - v_j): u - v = (t - z) c - (a_t - a_z).
    b, s_zo, s_zn, s_old, s_ro, s_rn, d_old, d_ref = sum8(
        b, s_zo, s_zn, s_old, s_ro, s_rn, d_old, d_ro + d_rn, 0
    )
    if DISTANCE == "kl":
        d_old = d_old * per_tau + s_old * (a_zo - a_old)
        d_ref = d_ref * per_tau + s_ro * (a_zo - a_ref) + s_rn * (a_zn - a_ref)
    # 6. Right predictions: argmax_j x_j = y.
    is_old = y < C_OLD
    z_right = known & is_right(z_y, tl.maximum(top_zo, top_zn), z_before, b)
    old_right = known & is_old & is_right(old_y, top_old, old_before, s_old)
    ref_right = known & is_right(ref_y, top_ref, ref_before, s_ro + s_rn)
    # 7. The terms of Eq. 1 to 6, and the factors f of the exponentials (KL) or differences (LM) in the
    #    gradient.
    own = own_exponent(z_y, is_old, a_b, a_bn, a_zo, a_zn, per_tau, POWER)
    ce, fd_old, fd_ref, f_b, f_zo, f_zn, w_ce, f_old, f_ref = row_terms(
        own, b, a_zo, a_zn, s_zo, s_zn, s_old, d_old, old_right, s_ro, s_rn, d_ref, ref_right, known,
        alpha, beta, ce_focal_weight, old_value, old_slope, ref_value, ref_slope, mult,
        old_ptr is not None, C_OLD, DISTANCE, DISTIL_OLD, DISTIL_REF,
    )  # fmt: skip
    f_bo, f_bn = f_b, f_b
    if POWER:
        f_bo, f_bn = f_b * tl.exp2(tl.fma(a_zo, POWER, -a_b)), f_b * tl.exp2(tl.fma(a_zn, POWER, -a_bn))

    # 8. Second pass, from the row's end: the gradient of each logit, without the label's -w_ce:
    #    e_b f_b + e_z f_z + e_old f_old + e_ref f_ref.
    grad_ptr += row * GRAD[0]
    if NEW_BEGIN <= NEW_END and NEW_END < C:
        store_gradient(
            z_ptr, None, ref_ptr, grad_ptr, lane, each, NEW_END, a_b, a_bn, f_bo, f_bn,
            a_zo, a_zn, f_zo, f_zn, a_old, f_old, a_ref, f_ref, per_tau, False, True, True,
            C, C_OLD, DISTANCE, False, DISTIL_REF, Z, OLD, REF, GRAD, DROP, PAST, POWER,
        )  # fmt: skip
    for back in tl.range(0, NEW_END - NEW_BEGIN, STEP, loop_unroll_factor=2):
        store_gradient(
            z_ptr, None, ref_ptr, grad_ptr, lane, each, NEW_END - STEP - back, a_b, a_bn, f_bo, f_bn,
            a_zo, a_zn, f_zo, f_zn, a_old, f_old, a_ref, f_ref, per_tau, False, True, False,
            C, C_OLD, DISTANCE, False, DISTIL_REF, Z, OLD, REF, GRAD, DROP, PAST, POWER,
        )  # fmt: skip
    if OLD_END < NEW_BEGIN:
        store_gradient(
            z_ptr, old_ptr, ref_ptr, grad_ptr, lane, each, OLD_END, a_b, a_bn, f_bo, f_bn,
            a_zo, a_zn, f_zo, f_zn, a_old, f_old, a_ref, f_ref, per_tau, True, C_OLD < C, True,
            C, C_OLD, DISTANCE, DISTIL_OLD, DISTIL_REF, Z, OLD, REF, GRAD, DROP, PAST, POWER,
        )  # fmt: skip
    for back in tl.range(0, OLD_END, STEP, loop_unroll_factor=2):
        store_gradient(
            z_ptr, old_ptr, ref_ptr, grad_ptr, lane, each, OLD_END - STEP - back, a_b, a_bn, f_bo, f_bn,
            a_zo, a_zn, f_zo, f_zn, a_old, f_old, a_ref, f_ref, per_tau, True, False, False,
            C, C_OLD, DISTANCE, DISTIL_OLD, DISTIL_REF, Z, OLD, REF, GRAD, DROP, PAST, POWER,
        )  # fmt: skip
    # 9. The gradient of the label's own logit, with -w_ce.
    own_grad = own_gradient(
        own, z_y, old_y, ref_y, is_old, known, a_zo, a_zn, a_old, a_ref,
        f_b, f_zo, f_zn, w_ce, f_old, f_ref, per_tau, DISTANCE, DISTIL_OLD, DISTIL_REF,
    )  # fmt: skip
    # After all stores of step 8, write the label's own over them, or zeros if the row is ignored.
    tl.debug_barrier()
    for start in range(0, tl.where(valid, 0, GRAD[2]), STEP):
        store_zeros(grad_ptr, lane, each, start, GRAD)
    tl.store(grad_ptr + y, own_grad.to(grad_ptr.dtype.element_ty), mask=valid)
    if DISTANCE == "kl" and (DISTIL_OLD or DISTIL_REF):
        # 10. KL where a class is ruled out: d is summed again, with a guard. Done at the end, so that its
        #     addresses are not kept in registers during the second pass.
        finite = are_finite(d_old, d_ref)
        if finite == 0:
            old_again, ref_again = sum_again(
                z_ptr, old_ptr, ref_ptr, a_zo, a_zn, a_old, a_ref, per_tau, 1, LANES,
                C, C_OLD, DISTIL_OLD, DISTIL_REF, Z, OLD, REF,
            )  # fmt: skip
            terms = row_terms(
                own, b, a_zo, a_zn, s_zo, s_zn,
                s_old, tl.sum(old_again, 0), old_right, s_ro, s_rn, tl.sum(ref_again, 0), ref_right, known,
                alpha, beta, ce_focal_weight, old_value, old_slope, ref_value, ref_slope, mult,
                old_ptr is not None, C_OLD, DISTANCE, DISTIL_OLD, DISTIL_REF,
            )  # fmt: skip
            ce, fd_old, fd_ref = terms[0], terms[1], terms[2]
    # 11. The sums of this row alone.
    ce = weigh(ce, weight_ptr, row * WEIGHT_STRIDE)
    fd_old = weigh(fd_old, weight_ptr, row * WEIGHT_STRIDE)
    fd_ref = weigh(fd_ref, weight_ptr, row * WEIGHT_STRIDE)
    store_sums(sums_ptr, ce, fd_old, fd_ref, z_right, old_right, ref_right, valid)
