"""Device code of the fused loss that the kernels of narrow and of wide rows share.

Both row kernels compute what `mpt_kernels.reference` specifies. For each row they need four kinds of softmax:
of the student's z + Delta; at temperature tau of all of z, and of its old part; and at tau of each teacher's
logits t. An exponential takes one multiply-add and one power of two. Let c = log2(e) / tau, m the maximum of
the logits, and a = m c. Then

    e_j = 2^u_j,  u_j = t_j c - a  (one rounding),  S = sum_j e_j

Rounding a shifts all exponents alike, the label's too, so the error cancels in every quotient. KL takes no
logarithm for each class. Let u and S_t be the teacher's, and v and S_s the student's:

    KL(t || s) = ln 2 (sum_j 2^u_j (u_j - v_j) / S_t + log2(S_s / S_t))

Old columns are scaled by the maximum of the old part, and new columns by that of the new part. So one
exponential of a class serves both softmaxes at tau, and neither part vanishes if the other is far larger.
Only the label's own class has -w_ce in its gradient. That element is written again at the end, so that no
other class need be compared with the label.

Prefixes of names in both kernels:

    m_  a maximum                                    s_  a sum of exponentials at tau
    a_  a maximum times c                            d_  a distance's sum over classes
    b_  a sum of exponentials at temperature 1       e_  exponentials of each class
    w_  the weight of a term                         f_  a factor of the gradient

Suffixes: `zo` and `zn` are the student's old and new part, `z` both; `bo` and `bn` its parts at temperature
1; `old` and `ref` the teachers; `ro` and `rn` the reference's old and new part. `x_before` is the maximum
over the columns before the label. The label is the prediction if no logit is above its own and none before it
is equal.

Strides and widths are compile-time constants, because only then does the compiler know that rows are aligned,
and loads 16 bytes at a time. Sums that are needed together are joined into one tensor and reduced at once,
with one exchange between warps in place of one for each sum.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return"

import triton
import triton.language as tl

LOG2E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)
# The maximum of no logits. It is finite, also times log2(e) / tau for any sensible tau, so that a difference
# with it is never inf - inf. Products with a power of two are exact, so that no difference of two of them is
# what rounding took from one, which at this size is 1e28.
LOWEST = tl.constexpr(-(2.0**119))


@triton.jit
def row_terms(
    # The label's exponent at temperature 1, biased, z_y c + Delta_y c - a_b; the sum at this scale.
    own, s_b,
    # The student at tau: scales and sums of the old and of the new part.
    a_zo, a_zn, s_zo, s_zn,
    # The teachers: sums, distances, and whether they are right; whether the label is within 0..C-1.
    s_old, d_old, old_right, s_ro, s_rn, d_ref, ref_right, known,
    # The settings, and scale / normaliser.
    alpha, beta, ce_focal_weight, old_value, old_slope, ref_value, ref_slope, mult,
    HAS_OLD: tl.constexpr, C_OLD: tl.constexpr, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr,
    DISTIL_REF: tl.constexpr,
):  # fmt: skip
    """Compute the three terms of rows from their sums, and the factors of the gradient.

    Returns:
        ce, fd_old, fd_ref: the terms, each weighted, not divided by the normaliser.
        f_b: factor of the biased exponentials.
        f_zo, f_zn: factors of the student's exponentials at tau.
        w_ce: to be subtracted from the gradient of the label's own logit.
        f_old, f_ref: factors of the teachers' exponentials (KL), or of the differences to the teachers (LM).
    """
    # 1. Weights: w_ce = 1 + ce_focal_weight 1(old right), and w = alpha + beta 1(teacher right) (Eq. 4). The
    #    host cannot be told of a label outside 0..C-1 without waiting for the device, so w_ce becomes NaN.
    w_ce = tl.where(known, 1.0, float("nan"))
    if HAS_OLD:
        w_ce *= 1.0 + tl.where(old_right, ce_focal_weight, 0.0)
    w_old = alpha + tl.where(old_right, beta, 0.0)
    w_ref = alpha + tl.where(ref_right, beta, 0.0)
    # 2. ce = w_ce ln 2 (log2 S_b - ((z_y + Delta_y) c - a_b)) (Eq. 1, 2); its gradient is
    #    w_ce (p_j - 1(j = y)).
    ce = w_ce * LN2 * (tl.log2(s_b) - own)
    w_ce *= mult
    f_b = w_ce * (1.0 / s_b)
    fd_old, fd_ref, f_zo, f_zn = w_old * 0.0, w_ref * 0.0, w_old * 0.0, w_ref * 0.0
    f_old, f_ref = w_old * old_slope * mult, w_ref * ref_slope * mult
    if DISTANCE == "kl":
        # 3. KL = ln 2 (d / S_t + log2(S_s / S_t)) (Eq. 5); its gradient is (q_s,j - q_t,j) / tau, q = e / S.
        if DISTIL_OLD:
            per_s = 1.0 / s_old
            kl = d_old * per_s + tl.log2(s_zo * per_s)
            if C_OLD == 1:
                kl = s_old - s_old  # one class has probability 1 in both, and no rounding
            fd_old = old_value * w_old * LN2 * kl
            f_zo, f_old = f_old * (1.0 / s_zo), -f_old * per_s
        if DISTIL_REF:
            # v of a part was taken at that part's scale: v_j = z_j c - a_z at the larger of both.
            a_z = tl.maximum(a_zo, a_zn)
            part_o, part_n = tl.exp2(a_zo - a_z), tl.exp2(a_zn - a_z)
            s_z, s_ref = s_zo * part_o + s_zn * part_n, s_ro + s_rn
            d_ref -= s_ro * (a_zo - a_z) + s_rn * (a_zn - a_z)
            per_s = 1.0 / s_ref
            fd_ref = ref_value * w_ref * LN2 * (d_ref * per_s + tl.log2(s_z * per_s))
            f_z = f_ref * (1.0 / s_z)
            f_zo, f_zn, f_ref = f_zo + f_z * part_o, f_z * part_n, -f_ref * per_s
    if DISTANCE == "lm":
        # 4. LM = d / 2, over C by the mean (Eq. 6); its gradient is z_j - t_j, which `value` and `slope`
        #    multiply.
        fd_old, fd_ref = old_value * w_old * d_old, ref_value * w_ref * d_ref
    return ce, fd_old, fd_ref, f_b, f_zo, f_zn, w_ce, f_old, f_ref


@triton.jit
def own_exponent(z_y, y_is_old, a_b, a_bn, a_zo, a_zn, per_tau, POWER: tl.constexpr):
    """Compute the label's biased exponent at temperature 1, with the roundings of its class's exponential."""
    scale = tl.where(y_is_old, a_b, a_bn)
    if POWER:
        a_z = tl.where(y_is_old, a_zo, a_zn)
        return tl.fma(tl.fma(z_y, per_tau, -a_z), POWER, tl.fma(a_z, POWER, -scale))
    return tl.fma(z_y, LOG2E, -scale)


@triton.jit
def own_gradient(
    own, z_y, old_y, ref_y, y_is_old, known, a_zo, a_zn, a_old, a_ref, f_b, f_zo, f_zn, w_ce, f_old, f_ref,
    per_tau, DISTANCE: tl.constexpr, DISTIL_OLD: tl.constexpr, DISTIL_REF: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of the label's own logit, the only one with -w_ce."""
    grad = tl.exp2(own) * f_b - w_ce
    if DISTANCE == "kl":
        if DISTIL_OLD or DISTIL_REF:
            grad += tl.exp2(tl.fma(z_y, per_tau, -tl.where(y_is_old, a_zo, a_zn))) * tl.where(
                y_is_old, f_zo, f_zn
            )
        if DISTIL_OLD:
            grad += tl.where(y_is_old, tl.exp2(tl.fma(old_y, per_tau, -a_old)) * f_old, 0.0)
        if DISTIL_REF:
            grad += tl.exp2(tl.fma(ref_y, per_tau, -a_ref)) * f_ref
    if DISTANCE == "lm":
        if DISTIL_OLD:
            grad += difference_of(z_y, old_y, y_is_old) * f_old
        if DISTIL_REF:
            grad += difference_of(z_y, ref_y, known) * f_ref
    return grad


@triton.jit
def is_right(x_y, m, before, exponentials):
    """Tell whether the label's logit x_y is the first maximum of a row without NaN.

    m is the maximum of the row, and `before` that of the columns before the label. Maxima skip a NaN, but
    `exponentials`, the sum of the row's exponentials, becomes NaN. A maximum of +inf makes the sum NaN as
    well, so the sum is not looked at then.
    """
    return (m <= x_y) & (before < x_y) & ((exponentials == exponentials) | (m == float("inf")))


@triton.jit
def load_labels(y_ptr, ignore_index, C: tl.constexpr):
    """Load labels.

    Returns:
        Labels as int32, 0 for those outside 0..C-1; whether a row is valid; whether its label is in 0..C-1.
    """
    y = tl.load(y_ptr)
    known = (y >= 0) & (y < C)
    return tl.where(known, y, 0).to(tl.int32), y != ignore_index, known


@triton.jit
def load_bias(k_ptr, offset, k):
    """Load k of each row, or repeat the one k if there is no tensor."""
    if k_ptr is not None:
        return tl.load(k_ptr + offset).to(tl.float32)
    return k + tl.zeros_like(offset).to(tl.float32)


@triton.jit
def load_inverse_normalizer(normalizer_ptr, inverse_normalizer):
    """Compute 1 / normaliser from a tensor, 0 if that is 0; without a tensor return the number given."""
    if normalizer_ptr is not None:
        normalizer = tl.load(normalizer_ptr).to(tl.float32)
        inverse_normalizer = tl.where(normalizer == 0.0, 0.0, 1.0 / normalizer)
    return inverse_normalizer


@triton.jit
def load_scale(scale_ptr, scale):
    """Load the factor of the gradient from a tensor; without a tensor return the number given."""
    if scale_ptr is not None:
        scale = tl.load(scale_ptr).to(tl.float32)
    return scale


@triton.jit
def weigh(x, weight_ptr, offset):
    """Multiply x by the weight of each row, if there are weights."""
    if weight_ptr is not None:
        x = x * tl.load(weight_ptr + offset).to(tl.float32)
    return x


@triton.jit
def load_tile(
    row_ptr, lane, each, start, LAYOUT: tl.constexpr, WIDTH: tl.constexpr, FULL: tl.constexpr,
    EVICT: tl.constexpr,
):  # fmt: skip
    """Load columns start + lane + each in float32, with -inf from column WIDTH on.

    LAYOUT is that of `row_layout`: row stride, column stride, padded width. Loading up to the padded width
    keeps the last load of a row whole. FULL says that all columns lie below WIDTH. The part of the address
    that differs between the loads of one thread is added last, so that the loads share one address.
    """
    place = (row_ptr + start) + lane + each
    if LAYOUT[1] != 1:
        place = row_ptr + element(start + lane + each, LAYOUT[1])
    if FULL:
        return as_float32(tl.load(place, eviction_policy=EVICT))
    col = start + lane + each
    x = as_float32(tl.load(place, mask=col < LAYOUT[2], other=-float("inf"), eviction_policy=EVICT))
    if LAYOUT[2] != WIDTH:
        x = tl.where(col < WIDTH, x, -float("inf"))
    return x


@triton.jit
def as_float32(x):
    """Convert x to float32.

    The bits of a bfloat16 are the upper half of a float32; as a shift, either of a pair takes one
    instruction.
    """
    if x.dtype == tl.bfloat16:
        return (x.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    return x.to(tl.float32)


@triton.jit
def element(col, STRIDE: tl.constexpr):
    """Compute a column's offset from the start of its row; in 64 bits if columns are not adjacent."""
    return col if STRIDE == 1 else col.to(tl.int64) * STRIDE


@triton.jit
def tile_columns(LANES: tl.constexpr, EACH: tl.constexpr, ALIGNED: tl.constexpr):
    """Return the columns of a tile as two addends: where each lane begins, and its EACH columns from there.

    One thread holds all columns of a lane. If rows are ALIGNED they are adjacent, for wide loads, and lie
    along axis 1. Else they are LANES apart, so that neighbouring threads load neighbouring columns, and lie
    along axis 0.
    """
    if ALIGNED:
        lane, each = tl.arange(0, LANES)[:, None] * EACH, tl.arange(0, EACH)[None, :]
    else:
        # One model's rows may be aligned when another's are not. With the least alignment claimed for all
        # models, the compiler gives them one layout, and threads need not exchange logits.
        lane = tl.multiple_of(tl.arange(0, LANES)[None, :], (1, 1))
        each = tl.arange(0, EACH)[:, None] * LANES
    return lane, each


@triton.jit
def spread(lane, ALIGNED: tl.constexpr):
    """Give a value of each lane, (LANES,), the axes of a tile."""
    return lane[:, None] if ALIGNED else lane[None, :]


@triton.jit
def exponents(m, factor):
    """Compute a = m c, which is subtracted in all exponents; the maximum of no logits counts as LOWEST."""
    return rounded_product(tl.maximum(m, LOWEST), factor)


@triton.jit
def rounded_product(x, factor):
    """Compute x c, with the same bits wherever it is used.

    The compiler merges a plain product into a subtraction after it, without rounding the product. Then a - a
    would not be 0 but what rounding takes from a: 0.0005 at logits of 10,000. It does not merge this one.
    """
    return tl.fma(x, factor, 0.0)


@triton.jit
def power(x, N: tl.constexpr):
    """Compute x^N for a whole number from 1 to 8, in the fewest products."""
    tl.static_assert(N >= 1 and N <= 8)
    x2 = x * x
    x4 = x2 * x2
    if N == 8:
        return x4 * x4
    y = x4 if N >= 4 else x
    if N == 6 or N == 7:
        y = x4 * x2
    if N == 2 or N == 3:
        y = x2
    if N == 3 or N == 5 or N == 7:
        y = y * x
    return y


@triton.jit
def rescaling(m, factor, a):
    """Compute 2^(m c - a), which turns sums of exponentials at a maximum m into those at a maximum a / c."""
    return tl.exp2(rounded_product(m, factor) - a)


@triton.jit
def difference_at(e, u, v, GUARDED: tl.constexpr):
    """Compute u - v, to be multiplied by e; if GUARDED, 0 where e is 0, also between infinities."""
    difference = u - v
    if GUARDED:
        difference = tl.where(e == 0.0, 0.0, difference)
    return difference


@triton.jit
def not_a_number(x):
    """Return NaN where x is NaN, else 0; stands for exponentials of a teacher that does not distil."""
    return tl.where(x != x, x, 0.0)


@triton.jit
def difference_of(z, t, live):
    """Compute z - t where live, else 0; 0 for two equal infinities."""
    return tl.where(live & (z != t), z - t, 0.0)
