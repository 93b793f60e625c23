"""Parts of the fused loss's device code that narrow and wide rows share, and the sum over rows.

Both row kernels compute what `mpt_kernels.reference` specifies. Per row they need, of the student's logits z, the
softmax of z + Delta and at temperature tau the softmax of all of z and of its old part; of each teacher its softmax
at tau. With m the maximum and S = sum exp((x - m) / tau), KL needs no logarithm per class:

    KL(t || s) = sum_j exp((t_j - m_t) / tau) (t_j - s_j) / (tau S_t) + (m_s - m_t) / tau + log(S_s / S_t)

Old columns are scaled by the old part's maximum and new columns by the new part's, so that one exponential per
class serves both softmaxes at tau, and no part vanishes beside the other however far apart they lie.

Names in both: `m_` a maximum, `b_` a sum of exponentials at temperature 1, `s_` one at tau, `d_` a distance's sum
over classes, `e_` exponentials of each class; then whose they are: `zo` and `zn` the student's old and new part, `z`
all of it, `old` and `ref` the teachers, `ro` and `rn` the reference's old and new part. `x_lost` tells whether a class
keeps the label from being the answer, `w_` is the weight of a term, `a_` a factor of the gradient.

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
def sum_rows(
    rows_ptr, normalizer_ptr, inverse_normalizer, values_ptr, counts_ptr, n_rows, BLOCK: tl.constexpr
):
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
    factor = load_inverse_normalizer(normalizer_ptr, inverse_normalizer)
    ce, fd_old, fd_ref = tl.sum(ce, 0) * factor, tl.sum(fd_old, 0) * factor, tl.sum(fd_ref, 0) * factor
    tl.store(values_ptr, ce + fd_old + fd_ref)
    tl.store(values_ptr + 1, ce)
    tl.store(values_ptr + 2, fd_old)
    tl.store(values_ptr + 3, fd_ref)
    tl.store(counts_ptr, tl.sum(student, 0))
    tl.store(counts_ptr + 1, tl.sum(old, 0))
    tl.store(counts_ptr + 2, tl.sum(ref, 0))


@triton.jit
def row_terms(
    z_y, m_biased, s_biased, m_zo, s_zo, m_zn, s_zn, m_z,
    m_old, s_old, d_old, old_right, m_ref, s_ref, d_ref, ref_right, known,
    alpha, beta, ce_focal_weight, inv_tau, old_value, ref_value,
    HAS_OLD: tl.constexpr, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr, DISTIL_REF: tl.constexpr,
):  # fmt: skip
    """From the sums of a row to its three terms, their weights, and the sum of all of z at tau."""
    # A label outside 0..C-1 cannot be reported from here without waiting for the device: it becomes NaN.
    w_ce = tl.where(known, 1.0, float("nan"))
    if HAS_OLD:
        w_ce *= 1.0 + tl.where(old_right, ce_focal_weight, 0.0)
    w_old = alpha + tl.where(old_right, beta, 0.0)
    w_ref = alpha + tl.where(ref_right, beta, 0.0)
    ce = w_ce * (tl.log(s_biased) + (m_biased - z_y))
    fd_old, fd_ref = w_ce * 0.0, w_ce * 0.0
    s_z = s_biased
    if DISTANCE == "kl":
        s_z = s_zo * exp_scaled(m_zo - m_z, inv_tau) + s_zn * exp_scaled(m_zn - m_z, inv_tau)
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
def store_terms(rows_ptr, row, n_rows, here, valid, ce, fd_old, fd_ref, z_right, old_right, ref_right):
    right = z_right.to(tl.float32) + 2.0 * old_right.to(tl.float32) + 4.0 * ref_right.to(tl.float32)
    tl.store(rows_ptr + row, tl.where(valid, ce, 0.0), mask=here)
    tl.store(rows_ptr + n_rows + row, tl.where(valid, fd_old, 0.0), mask=here)
    tl.store(rows_ptr + 2 * n_rows + row, tl.where(valid, fd_ref, 0.0), mask=here)
    tl.store(rows_ptr + 3 * n_rows + row, tl.where(valid, right, 0.0), mask=here)


@triton.jit
def load_labels(y_ptr, here, ignore_index, C: tl.constexpr):
    """Labels as int32 within 0..C-1, which rows count, and which labels were within 0..C-1."""
    y = tl.load(y_ptr, mask=here, other=0)
    valid = here & (y != ignore_index)
    known = (y >= 0) & (y < C)
    return tl.where(known, y, 0).to(tl.int32), valid, known


@triton.jit
def load_bias(k_ptr, offset, k, here):
    """k of each row, where there is one per row, or the one k."""
    if k_ptr is not None:
        return tl.load(k_ptr + offset, mask=here, other=0.0).to(tl.float32)
    return k + tl.zeros_like(offset).to(tl.float32)


@triton.jit
def load_inverse_normalizer(normalizer_ptr, inverse_normalizer):
    """1 / normaliser, 0 where it is 0: of what the pointer points to, or else the number given."""
    if normalizer_ptr is not None:
        normalizer = tl.load(normalizer_ptr).to(tl.float32)
        inverse_normalizer = tl.where(normalizer == 0.0, 0.0, 1.0 / normalizer)
    return inverse_normalizer


@triton.jit
def load_scale(scale_ptr, scale):
    if scale_ptr is not None:
        scale = tl.load(scale_ptr).to(tl.float32)
    return scale


@triton.jit
def load_tile(row_ptr, col, here, LAYOUT: tl.constexpr, WIDTH: tl.constexpr):
    """A tile of logits in float32, -inf from column WIDTH on. LAYOUT is (row stride, column stride, padded width):
    loading up to the padded width keeps the last load of a row whole."""
    place = row_ptr + element(col, LAYOUT[1])
    x = tl.load(place, mask=(col < LAYOUT[2]) & here, other=-float("inf")).to(tl.float32)
    if LAYOUT[2] != WIDTH:
        x = tl.where(col < WIDTH, x, -float("inf"))
    return x


@triton.jit
def element(col, STRIDE: tl.constexpr):
    """Elements from the start of a row; in 64 bits where columns lie apart, as a transposed tensor may be that long."""
    return col if STRIDE == 1 else col.to(tl.int64) * STRIDE


@triton.jit
def tile_columns(LANES: tl.constexpr, EACH: tl.constexpr, ALIGNED: tl.constexpr):
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
def spread(lane, ALIGNED: tl.constexpr):
    return lane[:, None] if ALIGNED else lane[None, :]


@triton.jit
def exp_scaled(x, factor):
    return tl.exp2(x * (factor * LOG2E))


@triton.jit
def weighted(e, t, z):
    """e (t - z), and 0 where e is 0, whatever the difference."""
    return tl.where(e == 0.0, 0.0, e * (t - z))


@triton.jit
def difference_of(z, t, live):
    """z - t where live, 0 for two equal infinities."""
    return tl.where(live & (z != t), z - t, 0.0)


@triton.jit
def beats(x, x_y, col, label, live):
    """1.0 where class `col` keeps the label from being the first maximum (a NaN does), else 0.0."""
    unbeaten = tl.where(col < label, x < x_y, x <= x_y)
    return tl.where(live & (unbeaten == 0), 1.0, 0.0)


@triton.jit
def max8(a, b, c, d, e, f, g, h, AXIS: tl.constexpr):
    """Eight maxima along AXIS in one reduction."""
    return _split8(tl.max(_join8(a, b, c, d, e, f, g, h), AXIS))


@triton.jit
def sum8(a, b, c, d, e, f, g, h, AXIS: tl.constexpr):
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
