"""Device code that adds up results of rows: each program its own, a second launch those of all programs."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return"

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from mpt_kernels.triton_parts import load_inverse_normalizer

# Tried on an H200 in place of the second launch: programs that count themselves in, so that the last one adds
# up. Arrivals at one counter wait for each other, about 7 ns each: 28.9 microseconds at 4,096 x 1,000 in
# float32, where a second launch took 21.5 and one that is made ready early 21.0.


@triton.jit
def store_sums(sums_ptr, ce, fd_old, fd_ref, z_right, old_right, ref_right, counted):
    """Add up a program's terms and right predictions over the rows that are counted, and store the sums.

    sums_ptr points at (2, P, 4), P the number of programs: the terms of each program as (0, ce, fd_old,
    fd_ref), then its counts as (student, old, reference, 0) in int32. Results of rows are (R,), or scalars of
    one row.
    """
    terms_at = sums_ptr + tl.program_id(0) * 4
    tl.store(terms_at, 0.0)
    tl.store(terms_at + 1, _add_up(tl.where(counted, ce, 0.0)))
    tl.store(terms_at + 2, _add_up(tl.where(counted, fd_old, 0.0)))
    tl.store(terms_at + 3, _add_up(tl.where(counted, fd_ref, 0.0)))
    counts_at = _as_counts(terms_at + tl.num_programs(0) * 4)
    tl.store(counts_at, _add_up((counted & z_right).to(tl.int32)))
    tl.store(counts_at + 1, _add_up((counted & old_right).to(tl.int32)))
    tl.store(counts_at + 2, _add_up((counted & ref_right).to(tl.int32)))
    tl.store(counts_at + 3, 0)


@triton.jit(do_not_specialize=["programs"])
def add_programs(
    sums_ptr, programs, normalizer_ptr, inverse_normalizer, values_ptr, counts_ptr, BLOCK: tl.constexpr,
    READY: tl.constexpr,
):  # fmt: skip
    """Add up the sums of all programs of the launch before, BLOCK at once, in a fixed order.

    To be launched as one program; if READY, it may begin before that launch ends, and waits for its end, and
    the launch after it may be made ready meanwhile.
    Stores (4,) loss, ce, fd_old and fd_ref, divided by the normaliser, and (3,) counts. The order makes
    results repeat bit by bit.
    """
    if READY:
        gdc_launch_dependents()
        gdc_wait()
    column = tl.arange(0, 4)
    terms = tl.zeros((BLOCK, 4), tl.float32)
    counts = tl.zeros((BLOCK, 4), tl.int32)
    for start in range(0, programs, BLOCK):
        program = start + tl.arange(0, BLOCK)[:, None]
        terms_at = sums_ptr + program * 4 + column[None, :]
        terms += tl.load(terms_at, mask=program < programs, other=0.0)
        counts += tl.load(_as_counts(terms_at + programs * 4), mask=program < programs, other=0)
    values = tl.sum(terms, 0) * load_inverse_normalizer(normalizer_ptr, inverse_normalizer)
    tl.store(values_ptr + column, tl.where(column == 0, tl.sum(values, 0), values))
    tl.store(counts_ptr + column, tl.sum(counts, 0), mask=column < 3)


@triton.jit
def _add_up(x):
    """Add up (R,) values of rows in a fixed order; a scalar stays as it is."""
    return tl.sum(x, 0) if len(x.shape) else x


@triton.jit
def _as_counts(at):
    """Read an address of float32 as one of int32."""
    return at.to(tl.pointer_type(tl.int32), bitcast=True)
