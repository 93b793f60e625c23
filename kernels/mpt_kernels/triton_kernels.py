"""The Triton device code of the fused loss: one row in one tile, one row in many tiles, and the sum over rows.

Both row kernels compute what `mpt_kernels.reference` specifies. Per row they need, of the student's logits z, the
softmax of z + Delta and at temperature tau the softmax of all of z and of its old part; of each teacher its softmax
at tau. With m the maximum and S = sum exp((x - m) / tau), KL needs no logarithm per class:

    KL(t || s) = sum_j exp((t_j - m_t) / tau) (t_j - s_j) / (tau S_t) + (m_s - m_t) / tau + log(S_s / S_t)

Old columns are scaled by the old part's maximum and new columns by the new part's, so that one exponential per
class serves both softmaxes at tau, and no part vanishes beside the other however far apart they lie.

Strides and widths are compile-time constants: only then does the compiler know that rows are aligned, and loads
16 bytes at a time. Sums that are needed together are joined into one tensor and reduced at once: one exchange
between warps, not one each.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return"

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
# Stands for the maximum of nothing. Finite, so that differences with it are never inf - inf.
LOWEST = tl.constexpr(-3.0e38)


@triton.jit(do_not_specialize=["n_rows"])
def narrow_rows(
    z_ptr, y_ptr, old_ptr, ref_ptr, k_ptr, normalizer_ptr, scale_ptr, grad_ptr, rows_ptr,
    n_rows, k, over, scale, alpha, beta, ce_focus, inv_tau,
    old_value, old_slope, ref_value, ref_slope, ignore_index,
    C: tl.constexpr, C_OLD: tl.constexpr, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr,
    DISTIL_REF: tl.constexpr, Z: tl.constexpr, OLD: tl.constexpr, REF: tl.constexpr, GRAD: tl.constexpr,
    Y_STRIDE: tl.constexpr, K_STRIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program, each whole in registers: every logit is read once. BLOCK >= C is a power of two."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = row < n_rows
    row = row.to(tl.int64)
    y, valid, known = _labels(y_ptr + row * Y_STRIDE, here, ignore_index, C)
    bias = _bias(k_ptr, row * K_STRIDE, k, here)
    mult = _over(normalizer_ptr, over) * _scale(scale_ptr, scale)

    col = tl.arange(0, BLOCK)[None, :]
    label = y[:, None]
    is_old = col < C_OLD
    asked = valid & known
    z = _load_tile(z_ptr + row[:, None] * Z[0], col, here[:, None], Z, C)
    z_y = tl.load(z_ptr + row * Z[0] + _offset(y, Z[1]), mask=asked, other=0.0).to(tl.float32)
    z_lost = _beats(z, z_y[:, None], col, label, col < C)
    none = tl.full((ROWS, BLOCK), LOWEST, tl.float32)
    old, old_lost = none, none
    if old_ptr is not None:
        y_old = tl.minimum(y, C_OLD - 1)
        old = _load_tile(old_ptr + row[:, None] * OLD[0], col, here[:, None], OLD, C_OLD)
        old_y = tl.load(old_ptr + row * OLD[0] + _offset(y_old, OLD[1]), mask=asked, other=0.0).to(tl.float32)
        old_lost = _beats(old, old_y[:, None], col, label, is_old)
    ref, ref_lost = none, none
    if ref_ptr is not None:
        ref = _load_tile(ref_ptr + row[:, None] * REF[0], col, here[:, None], REF, C)
        ref_y = tl.load(ref_ptr + row * REF[0] + _offset(y, REF[1]), mask=asked, other=0.0).to(tl.float32)
        ref_lost = _beats(ref, ref_y[:, None], col, label, col < C)

    m_zo, m_zn, m_old, m_ref, z_lost, old_lost, ref_lost, _ = _max8(
        tl.where(is_old, z, LOWEST), tl.where(is_old, LOWEST, z), old, ref, z_lost, old_lost, ref_lost, none, 1
    )  # fmt: skip
    z_right, ref_right = known & (z_lost <= 0.0), known & (ref_lost <= 0.0)
    old_right = known & (old_lost <= 0.0) & (y < C_OLD)
    m_zo, m_zn = tl.maximum(m_zo, LOWEST), tl.maximum(m_zn, LOWEST)
    m_z = tl.maximum(m_zo, m_zn)
    m_biased = tl.maximum(m_zo, m_zn + bias)

    # Exponentials stay in registers for the gradient.
    e_biased = _exp(z + tl.where(is_old, 0.0, bias[:, None]) - m_biased[:, None], 1.0)
    zero = tl.zeros((ROWS, BLOCK), tl.float32)
    e_z, e_old, e_ref, d_old, d_ref = zero, zero, zero, zero, zero
    if DISTANCE == "kl":
        if DISTIL_OLD or DISTIL_REF:
            e_z = _exp(z - tl.where(is_old, m_zo[:, None], m_zn[:, None]), inv_tau)
        if DISTIL_OLD:
            e_old = _exp(old - tl.maximum(m_old, LOWEST)[:, None], inv_tau)
            d_old = _product(e_old, old, z)
        if DISTIL_REF:
            e_ref = _exp(ref - tl.maximum(m_ref, LOWEST)[:, None], inv_tau)
            d_ref = _product(e_ref, ref, z)
    if DISTANCE == "lm":
        if DISTIL_OLD:
            e_old = _difference(z, old, is_old)
            d_old = e_old * e_old
        if DISTIL_REF:
            e_ref = _difference(z, ref, col < C)
            d_ref = e_ref * e_ref
    s_biased, s_zo, s_zn, s_old, s_ref, d_old, d_ref, _ = _sum8(
        e_biased, tl.where(is_old, e_z, 0.0), tl.where(is_old, 0.0, e_z), e_old, e_ref, d_old, d_ref, zero, 1
    )

    ce, fd_old, fd_ref, w_ce, w_old, w_ref, s_z = _terms(
        z_y + tl.where(y < C_OLD, 0.0, bias), m_biased, s_biased, m_zo, s_zo, m_zn, s_zn, m_z,
        m_old, s_old, d_old, old_right, m_ref, s_ref, d_ref, ref_right, known,
        alpha, beta, ce_focus, inv_tau, old_value, ref_value,
        old_ptr is not None, DISTANCE, DISTIL_OLD, DISTIL_REF,
    )  # fmt: skip
    _store_terms(rows_ptr, row, n_rows, here, valid, ce, fd_old, fd_ref, z_right, old_right, ref_right)

    w_ce, w_old, w_ref = w_ce * mult, w_old * old_slope * mult, w_ref * ref_slope * mult
    grad = e_biased * (w_ce / s_biased)[:, None] - tl.where(col == label, w_ce[:, None], 0.0)
    if DISTANCE == "kl":
        if DISTIL_OLD:
            grad += tl.where(is_old, e_z * (w_old / s_zo)[:, None] - e_old * (w_old / s_old)[:, None], 0.0)
        if DISTIL_REF:
            part = tl.where(is_old, _exp(m_zo - m_z, inv_tau)[:, None], _exp(m_zn - m_z, inv_tau)[:, None])
            grad += e_z * part * (w_ref / s_z)[:, None] - e_ref * (w_ref / s_ref)[:, None]
    if DISTANCE == "lm":
        if DISTIL_OLD:
            grad += e_old * w_old[:, None]
        if DISTIL_REF:
            grad += e_ref * w_ref[:, None]
    grad = tl.where(valid[:, None], grad, 0.0)
    mask = (col < GRAD[2]) & here[:, None]
    tl.store(grad_ptr + row[:, None] * GRAD[0] + col, grad.to(grad_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["n_rows"])
def wide_rows(
    z_ptr, y_ptr, old_ptr, ref_ptr, k_ptr, normalizer_ptr, scale_ptr, grad_ptr, rows_ptr,
    n_rows, k, over, scale, alpha, beta, ce_focus, inv_tau,
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
    y, valid, known = _labels(y_ptr + row * Y_STRIDE, True, ignore_index, C)
    bias = _bias(k_ptr, row * K_STRIDE, k, True)
    mult = _over(normalizer_ptr, over) * _scale(scale_ptr, scale)

    z_ptr += row * Z[0]
    z_y = tl.load(z_ptr + _offset(y, Z[1])).to(tl.float32)
    old_y = 0.0
    if old_ptr is not None:
        old_ptr += row * OLD[0]
        old_y = tl.load(old_ptr + _offset(tl.minimum(y, C_OLD - 1), OLD[1])).to(tl.float32)
    ref_y = 0.0
    if ref_ptr is not None:
        ref_ptr += row * REF[0]
        ref_y = tl.load(ref_ptr + _offset(y, REF[1])).to(tl.float32)

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
    scale_o, scale_n = _exp(m_zo - m_biased, 1.0), _exp(m_zn + bias - m_biased, 1.0)
    s_biased = b_zo * scale_o + b_zn * scale_n
    m_ref = tl.maximum(m_ro, m_rn)
    s_ref, d_ref = 0.0, d_ro + d_rn
    if DISTANCE == "kl":
        part_o, part_n = _exp(m_ro - m_ref, inv_tau), _exp(m_rn - m_ref, inv_tau)
        s_ref = s_ro * part_o + s_rn * part_n
        d_ref = _product(part_o, d_ro, 0.0) + _product(part_n, d_rn, 0.0)

    ce, fd_old, fd_ref, w_ce, w_old, w_ref, s_z = _terms(
        z_y + tl.where(y < C_OLD, 0.0, bias), m_biased, s_biased, m_zo, s_zo, m_zn, s_zn, m_z,
        m_old, s_old, d_old, old_right, m_ref, s_ref, d_ref, ref_right, known,
        alpha, beta, ce_focus, inv_tau, old_value, ref_value,
        old_ptr is not None, DISTANCE, DISTIL_OLD, DISTIL_REF,
    )  # fmt: skip
    _store_terms(rows_ptr, row, n_rows, True, valid, ce, fd_old, fd_ref, z_right, old_right, ref_right)

    w_ce, w_old, w_ref = w_ce * mult, w_old * old_slope * mult, w_ref * ref_slope * mult
    a_old, a_ref = w_old, w_ref
    a_zo, a_zn = 0.0, 0.0
    if DISTANCE == "kl":
        if DISTIL_OLD:
            a_zo += w_old / s_zo
            a_old = -w_old / s_old
        if DISTIL_REF:
            a_zo += w_ref * _exp(m_zo - m_z, inv_tau) / s_z
            a_zn += w_ref * _exp(m_zn - m_z, inv_tau) / s_z
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


@triton.jit(do_not_specialize=["n_rows"])
def sum_rows(rows_ptr, normalizer_ptr, over, values_ptr, counts_ptr, n_rows, BLOCK: tl.constexpr):
    """(4, N) row results -> loss and its three terms (4,) over the normaliser, right answers (3,).

    One program and a fixed order: the same bits every time.
    """
    ce = tl.zeros((BLOCK,), tl.float32)
    fd_old, fd_ref = ce, ce
    student, old, ref = (
        tl.zeros((BLOCK,), tl.int32),
        tl.zeros((BLOCK,), tl.int32),
        tl.zeros((BLOCK,), tl.int32),
    )
    for start in range(0, n_rows, BLOCK):
        row = (start + tl.arange(0, BLOCK)).to(tl.int64)
        mask = row < n_rows
        ce += tl.load(rows_ptr + row, mask=mask, other=0.0)
        fd_old += tl.load(rows_ptr + n_rows + row, mask=mask, other=0.0)
        fd_ref += tl.load(rows_ptr + 2 * n_rows + row, mask=mask, other=0.0)
        right = tl.load(rows_ptr + 3 * n_rows + row, mask=mask, other=0.0).to(tl.int32)
        student += right & 1
        old += (right >> 1) & 1
        ref += right >> 2
    over = _over(normalizer_ptr, over)
    ce, fd_old, fd_ref = tl.sum(ce, 0) * over, tl.sum(fd_old, 0) * over, tl.sum(fd_ref, 0) * over
    tl.store(values_ptr, ce + fd_old + fd_ref)
    tl.store(values_ptr + 1, ce)
    tl.store(values_ptr + 2, fd_old)
    tl.store(values_ptr + 3, fd_ref)
    tl.store(counts_ptr, tl.sum(student, 0))
    tl.store(counts_ptr + 1, tl.sum(old, 0))
    tl.store(counts_ptr + 2, tl.sum(ref, 0))


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
    tile = _tile(LANES, EACH, ALIGNED)
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
        z = tl.where(live, _load_tile(z_ptr, col, True, Z, C), -float("inf"))
        z_lost = tl.maximum(z_lost, tl.max(_beats(z, z_y, col, y, live), AXIS))
        m = tl.maximum(m_z, tl.max(z, AXIS))
        distance = z - _spread(m, ALIGNED)
        b_z = b_z * _exp(m_z - m, 1.0) + tl.sum(_exp(distance, 1.0), AXIS)
        if DISTANCE == "kl" and (DISTIL_OLD or DISTIL_REF):
            s_z = s_z * _exp(m_z - m, inv_tau) + tl.sum(_exp(distance, inv_tau), AXIS)
        m_z = m
        if old_ptr is not None:
            old = _load_tile(old_ptr, col, True, OLD, C_OLD)
            old_lost = tl.maximum(old_lost, tl.max(_beats(old, old_y, col, y, live), AXIS))
            if DISTIL_OLD:
                m_old, s_old, d_old = _accumulate(
                    z, old, live, m_old, s_old, d_old, inv_tau, DISTANCE, AXIS, ALIGNED
                )
        if ref_ptr is not None:
            ref = tl.where(live, _load_tile(ref_ptr, col, True, REF, C), -float("inf"))
            ref_lost = tl.maximum(ref_lost, tl.max(_beats(ref, ref_y, col, y, live), AXIS))
            if DISTIL_REF:
                m_ref, s_ref, d_ref = _accumulate(
                    z, ref, live, m_ref, s_ref, d_ref, inv_tau, DISTANCE, AXIS, ALIGNED
                )
    top_z, top_old, top_ref, z_lost, old_lost, ref_lost, _, _ = _max8(
        m_z, m_old, m_ref, z_lost, old_lost, ref_lost, zero, zero, 0
    )
    b_z *= _exp(m_z - top_z, 1.0)
    s_z *= _exp(m_z - top_z, inv_tau)
    if DISTANCE == "kl":
        part_old, part_ref = _exp(m_old - top_old, inv_tau), _exp(m_ref - top_ref, inv_tau)
        s_old, d_old = s_old * part_old, _product(part_old, d_old, 0.0)
        s_ref, d_ref = s_ref * part_ref, _product(part_ref, d_ref, 0.0)
    b_z, s_z, s_old, d_old, s_ref, d_ref, _, _ = _sum8(b_z, s_z, s_old, d_old, s_ref, d_ref, zero, zero, 0)
    return top_z, b_z, s_z, top_old, s_old, d_old, top_ref, s_ref, d_ref, z_lost, old_lost, ref_lost


@triton.jit
def _accumulate(
    z, t, live, m, s, d, inv_tau, DISTANCE: tl.constexpr, AXIS: tl.constexpr, ALIGNED: tl.constexpr
):
    """A tile of a teacher into its running maximum m, sum s and distance d, (LANES,) each."""
    if DISTANCE == "kl":
        top = tl.maximum(m, tl.max(t, AXIS))
        e = _exp(t - _spread(top, ALIGNED), inv_tau)
        shrink = _exp(m - top, inv_tau)
        s = s * shrink + tl.sum(e, AXIS)
        d = _product(shrink, d, 0.0) + tl.sum(_product(e, t, z), AXIS)
        m = top
    if DISTANCE == "lm":
        difference = _difference(z, t, live)
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
    tile = _tile(LANES, EACH, ALIGNED)
    BEGIN: tl.constexpr = LOW // 8 * 8
    STEP: tl.constexpr = LANES * EACH
    TILES: tl.constexpr = (HIGH - BEGIN + STEP - 1) // STEP
    for i in range(TILES):
        col = BEGIN + (TILES - 1 - i) * STEP + tile
        live = (col >= LOW) & (col < HIGH)
        z = _load_tile(z_ptr, col, True, Z, C)
        grad = _exp(z - m_z, 1.0) * a_ce - tl.where(col == y, w_ce, 0.0)
        if DISTANCE == "kl" and (DISTIL_OLD or DISTIL_REF):
            grad += _exp(z - m_z, inv_tau) * a_z
        if DISTIL_OLD:
            old = _load_tile(old_ptr, col, True, OLD, C_OLD)
            if DISTANCE == "kl":
                grad += _exp(old - m_old, inv_tau) * a_old
            else:
                grad += _difference(z, old, live) * a_old
        if DISTIL_REF:
            ref = _load_tile(ref_ptr, col, True, REF, C)
            if DISTANCE == "kl":
                grad += _exp(ref - m_ref, inv_tau) * a_ref
            else:
                grad += _difference(z, ref, live) * a_ref
        grad = tl.where(valid, grad, 0.0).to(grad_ptr.dtype.element_ty)
        # Padding of the gradient's rows is ours to write; the last tile of the new classes does.
        tl.store(grad_ptr + col, grad, mask=(col >= LOW) & (col < (GRAD[2] if HIGH == C else HIGH)))


@triton.jit
def _terms(
    z_y, m_biased, s_biased, m_zo, s_zo, m_zn, s_zn, m_z,
    m_old, s_old, d_old, old_right, m_ref, s_ref, d_ref, ref_right, known,
    alpha, beta, ce_focus, inv_tau, old_value, ref_value,
    HAS_OLD: tl.constexpr, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr, DISTIL_REF: tl.constexpr,
):  # fmt: skip
    """From the sums of a row to its three terms, their weights, and the sum of all of z at tau."""
    # A label outside 0..C-1 cannot be reported from here without waiting for the device: it becomes NaN.
    w_ce = tl.where(known, 1.0, float("nan"))
    if HAS_OLD:
        w_ce *= 1.0 + tl.where(old_right, ce_focus, 0.0)
    w_old = alpha + tl.where(old_right, beta, 0.0)
    w_ref = alpha + tl.where(ref_right, beta, 0.0)
    ce = w_ce * (tl.log(s_biased) + (m_biased - z_y))
    fd_old, fd_ref = w_ce * 0.0, w_ce * 0.0
    s_z = s_biased
    if DISTANCE == "kl":
        s_z = s_zo * _exp(m_zo - m_z, inv_tau) + s_zn * _exp(m_zn - m_z, inv_tau)
        if DISTIL_OLD:
            kl = inv_tau * (d_old / s_old + (m_zo - m_old)) + tl.log(s_zo / s_old)
            fd_old += old_value * w_old * kl
        if DISTIL_REF:
            kl = inv_tau * (d_ref / s_ref + (m_z - m_ref)) + tl.log(s_z / s_ref)
            fd_ref += ref_value * w_ref * kl
    if DISTANCE == "lm":
        if DISTIL_OLD:
            fd_old += old_value * w_old * d_old
        if DISTIL_REF:
            fd_ref += ref_value * w_ref * d_ref
    return ce, fd_old, fd_ref, w_ce, w_old, w_ref, s_z


@triton.jit
def _store_terms(rows_ptr, row, n_rows, here, valid, ce, fd_old, fd_ref, z_right, old_right, ref_right):
    right = z_right.to(tl.float32) + 2.0 * old_right.to(tl.float32) + 4.0 * ref_right.to(tl.float32)
    tl.store(rows_ptr + row, tl.where(valid, ce, 0.0), mask=here)
    tl.store(rows_ptr + n_rows + row, tl.where(valid, fd_old, 0.0), mask=here)
    tl.store(rows_ptr + 2 * n_rows + row, tl.where(valid, fd_ref, 0.0), mask=here)
    tl.store(rows_ptr + 3 * n_rows + row, tl.where(valid, right, 0.0), mask=here)


@triton.jit
def _labels(y_ptr, here, ignore_index, C: tl.constexpr):
    """Labels as int32 within 0..C-1, which rows count, and which labels were within 0..C-1."""
    y = tl.load(y_ptr, mask=here, other=0)
    valid = here & (y != ignore_index)
    known = (y >= 0) & (y < C)
    return tl.where(known, y, 0).to(tl.int32), valid, known


@triton.jit
def _bias(k_ptr, offset, k, here):
    """k of each row, where there is one per row, or the one k."""
    if k_ptr is not None:
        return tl.load(k_ptr + offset, mask=here, other=0.0).to(tl.float32)
    return k + tl.zeros_like(offset).to(tl.float32)


@triton.jit
def _over(normalizer_ptr, over):
    """1 / normaliser, 0 where it is 0: of what the pointer points to, or else the number given."""
    if normalizer_ptr is not None:
        normalizer = tl.load(normalizer_ptr).to(tl.float32)
        over = tl.where(normalizer == 0.0, 0.0, 1.0 / normalizer)
    return over


@triton.jit
def _scale(scale_ptr, scale):
    if scale_ptr is not None:
        scale = tl.load(scale_ptr).to(tl.float32)
    return scale


@triton.jit
def _load_tile(row_ptr, col, here, LAYOUT: tl.constexpr, WIDTH: tl.constexpr):
    """A tile of logits in float32, -inf from column WIDTH on. LAYOUT is (row stride, column stride, padded width):
    loading up to the padded width keeps the last load of a row whole."""
    place = row_ptr + _offset(col, LAYOUT[1])
    x = tl.load(place, mask=(col < LAYOUT[2]) & here, other=-float("inf")).to(tl.float32)
    if LAYOUT[2] != WIDTH:
        x = tl.where(col < WIDTH, x, -float("inf"))
    return x


@triton.jit
def _offset(col, STRIDE: tl.constexpr):
    """Elements from the start of a row; in 64 bits where columns lie apart, as a transposed tensor may be that long."""
    return col if STRIDE == 1 else col.to(tl.int64) * STRIDE


@triton.jit
def _tile(LANES: tl.constexpr, EACH: tl.constexpr, ALIGNED: tl.constexpr):
    """Columns of a tile so that one thread holds all EACH of a lane: adjacent ones where a row is aligned, for wide
    loads; else a stride apart, for loads that neighbours share. A lane lies along axis 1 or, then, axis 0."""
    if ALIGNED:
        col = tl.arange(0, LANES)[:, None] * EACH + tl.arange(0, EACH)[None, :]
    else:
        col = tl.arange(0, EACH)[:, None] * LANES + tl.arange(0, LANES)[None, :]
        # One model's rows may be aligned where another's are not. Claiming no more than the least for all of them
        # gives them one layout, and nothing has to be handed from thread to thread.
        col = tl.multiple_of(col, (1, 1))
    return col


@triton.jit
def _spread(lane, ALIGNED: tl.constexpr):
    return lane[:, None] if ALIGNED else lane[None, :]


@triton.jit
def _exp(x, factor):
    return tl.exp2(x * (factor * LOG2E))


@triton.jit
def _product(e, t, z):
    """e (t - z), and 0 where e is 0, whatever the difference."""
    return tl.where(e == 0.0, 0.0, e * (t - z))


@triton.jit
def _difference(z, t, live):
    """z - t where live, 0 for two equal infinities."""
    return tl.where(live & (z != t), z - t, 0.0)


@triton.jit
def _beats(x, x_y, col, label, live):
    """1.0 where class `col` keeps the label from being the first maximum (a NaN does), else 0.0."""
    unbeaten = tl.where(col < label, x < x_y, x <= x_y)
    return tl.where(live & (unbeaten == 0), 1.0, 0.0)


@triton.jit
def _max8(a, b, c, d, e, f, g, h, AXIS: tl.constexpr):
    """Eight maxima along AXIS in one reduction."""
    return _split8(tl.max(_join8(a, b, c, d, e, f, g, h), AXIS))


@triton.jit
def _sum8(a, b, c, d, e, f, g, h, AXIS: tl.constexpr):
    """Eight sums along AXIS in one reduction."""
    return _split8(tl.sum(_join8(a, b, c, d, e, f, g, h), AXIS))


@triton.jit
def _join8(a, b, c, d, e, f, g, h):
    return tl.join(tl.join(tl.join(a, b), tl.join(c, d)), tl.join(tl.join(e, f), tl.join(g, h)))


@triton.jit
def _split8(x):
    abcd, efgh = tl.split(x)
    ab, cd = tl.split(abcd)
    ef, gh = tl.split(efgh)
    a, b = tl.split(ab)
    c, d = tl.split(cd)
    e, f = tl.split(ef)
    g, h = tl.split(gh)
    return a, b, c, d, e, f, g, h
