"""Device code that stores the results of rows, and sums them up in a second kernel or the last program."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return"

import triton
import triton.language as tl

from mpt_kernels.triton_parts import load_inverse_normalizer


@triton.jit
def store_terms(rows_ptr, row, n_rows, valid, ce, fd_old, fd_ref, z_right, old_right, ref_right):
    """Store the results of rows, a column of (4, N) each: three terms, and which models are right.

    The last result is 1 if the student is right, plus 2 if the old model is, plus 4 if the reference is.
    """
    right = z_right.to(tl.float32) + 2.0 * old_right.to(tl.float32) + 4.0 * ref_right.to(tl.float32)
    tl.store(rows_ptr + row, tl.where(valid, ce, 0.0))
    tl.store(rows_ptr + n_rows + row, tl.where(valid, fd_old, 0.0))
    tl.store(rows_ptr + 2 * n_rows + row, tl.where(valid, fd_ref, 0.0))
    tl.store(rows_ptr + 3 * n_rows + row, tl.where(valid, right, 0.0))


@triton.jit(do_not_specialize=["n_rows"])
def sum_rows(
    rows_ptr, normalizer_ptr, inverse_normalizer, values_ptr, counts_ptr, n_rows, BLOCK: tl.constexpr
):
    """Sum up (4, N) results of rows to the loss and its terms, (4,), over the normaliser, and counts, (3,).

    To be launched as one program, which sums in a fixed order, so that results are bitwise reproducible.
    """
    ce = tl.zeros((BLOCK,), tl.float32)
    fd_old, fd_ref = ce, ce
    student = tl.zeros((BLOCK,), tl.int32)
    old, ref = student, student
    for start in range(0, n_rows, BLOCK):
        of_ce, of_old, of_ref, right = _load_rows(rows_ptr, start, n_rows, BLOCK)
        ce, fd_old, fd_ref = ce + of_ce, fd_old + of_old, fd_ref + of_ref
        student, old, ref = student + (right & 1), old + (right >> 1 & 1), ref + (right >> 2)
    factor = load_inverse_normalizer(normalizer_ptr, inverse_normalizer)
    _store_sums(values_ptr, counts_ptr, factor, ce, fd_old, fd_ref, student, old, ref)


@triton.jit
def sum_rows_if_last(
    rows_ptr,
    arrived_ptr,
    normalizer_ptr,
    inverse_normalizer,
    values_ptr,
    counts_ptr,
    n_rows,
    MOST: tl.constexpr,
):
    """Sum up rows as `sum_rows` does, at most MOST of them, if this program is the last to arrive here.

    Without a counter (`arrived_ptr`) no program sums up. The barrier orders all stores of this program before
    its arrival. The arrival releases and acquires, and so orders the stores of all programs before the sum.
    """
    if arrived_ptr is not None:
        tl.debug_barrier()
        if tl.atomic_add(arrived_ptr, 1, sem="acq_rel", scope="gpu") == tl.num_programs(0) - 1:
            tl.store(arrived_ptr, 0)  # for the next launch
            ce, fd_old, fd_ref, right = _load_rows(rows_ptr, 0, n_rows, MOST)
            factor = load_inverse_normalizer(normalizer_ptr, inverse_normalizer)
            student, old, ref = right & 1, right >> 1 & 1, right >> 2
            _store_sums(values_ptr, counts_ptr, factor, ce, fd_old, fd_ref, student, old, ref)


@triton.jit
def _load_rows(rows_ptr, start, n_rows, BLOCK: tl.constexpr):
    """Load the four results of BLOCK rows, with 0 beyond the last row."""
    row = (start + tl.arange(0, BLOCK)).to(tl.int64)
    mask = row < n_rows
    ce = tl.load(rows_ptr + row, mask=mask, other=0.0)
    fd_old = tl.load(rows_ptr + n_rows + row, mask=mask, other=0.0)
    fd_ref = tl.load(rows_ptr + 2 * n_rows + row, mask=mask, other=0.0)
    right = tl.load(rows_ptr + 3 * n_rows + row, mask=mask, other=0.0).to(tl.int32)
    return ce, fd_old, fd_ref, right


@triton.jit
def _store_sums(values_ptr, counts_ptr, factor, ce, fd_old, fd_ref, student, old, ref):
    """Sum up over a block; store the loss and its terms, times ``factor``, and the counts."""
    ce, fd_old, fd_ref = tl.sum(ce, 0) * factor, tl.sum(fd_old, 0) * factor, tl.sum(fd_ref, 0) * factor
    tl.store(values_ptr, ce + fd_old + fd_ref)
    tl.store(values_ptr + 1, ce)
    tl.store(values_ptr + 2, fd_old)
    tl.store(values_ptr + 3, fd_ref)
    tl.store(counts_ptr, tl.sum(student, 0))
    tl.store(counts_ptr + 1, tl.sum(old, 0))
    tl.store(counts_ptr + 2, tl.sum(ref, 0))
