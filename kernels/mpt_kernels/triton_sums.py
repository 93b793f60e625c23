"""Device code that adds up the results of rows: each program its own, and the last program those of all."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,no-any-return"

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

from mpt_kernels.arrivals import COUNTER_INTS as _COUNTER_INTS
from mpt_kernels.arrivals import GROUPS as _GROUPS
from mpt_kernels.triton_parts import load_inverse_normalizer

COUNTER_INTS, GROUPS = tl.constexpr(_COUNTER_INTS), tl.constexpr(_GROUPS)


@triton.jit
def add_rows(ce, fd_old, fd_ref, z_right, old_right, ref_right, counted):
    """Add up (R,) terms and right predictions over those rows that are counted, in a fixed order.

    Returns:
        Sums of ce, fd_old and fd_ref; numbers of rows in which the student, the old model and the reference
        are right, as float32.
    """
    return (
        tl.sum(tl.where(counted, ce, 0.0), 0),
        tl.sum(tl.where(counted, fd_old, 0.0), 0),
        tl.sum(tl.where(counted, fd_ref, 0.0), 0),
        tl.sum((counted & z_right).to(tl.float32), 0),
        tl.sum((counted & old_right).to(tl.float32), 0),
        tl.sum((counted & ref_right).to(tl.float32), 0),
    )


@triton.jit
def store_sums(sums_ptr, ce, fd_old, fd_ref, z_right, old_right, ref_right):
    """Store what one program has added up.

    sums_ptr points at (2, P, 4), P the number of programs: the terms of each program as (0, ce, fd_old,
    fd_ref), then its counts as (student, old, reference, 0) in int32.
    """
    terms_at = sums_ptr + tl.program_id(0) * 4
    tl.store(terms_at, 0.0)
    tl.store(terms_at + 1, ce)
    tl.store(terms_at + 2, fd_old)
    tl.store(terms_at + 3, fd_ref)
    counts_at = _as_counts(terms_at + tl.num_programs(0) * 4)
    tl.store(counts_at, z_right.to(tl.int32))
    tl.store(counts_at + 1, old_right.to(tl.int32))
    tl.store(counts_at + 2, ref_right.to(tl.int32))
    tl.store(counts_at + 3, 0)


@triton.jit
def arrive(arrived_ptr, GROUPED: tl.constexpr):
    """Count this program in; tell whether it is the last one, so that the sums of all others can be read.

    Arrivals at one counter wait for each other, some 7 ns each on an H200. So many programs are GROUPED: each
    counts itself in at its group's counter, and the last of a group at the first counter.

    The barrier orders all stores of this program before its arrival. An arrival releases and acquires, and so
    orders the stores of all programs before what the last one reads. The last one at a counter sets it back
    to 0, for the next launch.
    """
    tl.debug_barrier()
    programs = tl.num_programs(0)
    expected = programs
    if GROUPED:
        members = (programs + GROUPS - 1) // GROUPS
        group = tl.program_id(0) // members
        expected = (programs + members - 1) // members
        last = _arrive(
            arrived_ptr + (1 + group) * COUNTER_INTS, tl.minimum(members, programs - group * members)
        )
        if last:
            last = _arrive(arrived_ptr, expected)
    else:
        last = _arrive(arrived_ptr, expected)
    return last


@triton.jit
def _arrive(counter_ptr, expected):
    """Count one in at a counter; tell whether as many as expected have come."""
    last = tl.atomic_add(counter_ptr, 1, sem="acq_rel", scope="gpu") == expected - 1
    tl.store(counter_ptr, 0, mask=last)
    return last


@triton.jit
def add_programs(
    sums_ptr, programs, normalizer_ptr, inverse_normalizer, values_ptr, counts_ptr, BLOCK: tl.constexpr
):
    """Add up the sums of programs, BLOCK at once, in a fixed order, so that results repeat bit by bit.

    Stores (4,) loss, ce, fd_old and fd_ref, divided by the normaliser, and (3,) counts.
    """
    column = tl.arange(0, 4)
    terms = tl.zeros((BLOCK, 4), tl.float32)
    counts = tl.zeros((BLOCK, 4), tl.int32)
    for start in range(0, programs, BLOCK):
        program = start + tl.arange(0, BLOCK)[:, None]
        terms_at = sums_ptr + program * 4 + column[None, :]
        # Not from the multiprocessor's own cache, which other programs do not write to.
        terms += tl.load(terms_at, mask=program < programs, other=0.0, cache_modifier=".cg")
        counts_at = _as_counts(terms_at + programs * 4)
        counts += tl.load(counts_at, mask=program < programs, other=0, cache_modifier=".cg")
    values = tl.sum(terms, 0) * load_inverse_normalizer(normalizer_ptr, inverse_normalizer)
    tl.store(values_ptr + column, tl.where(column == 0, tl.sum(values, 0), values))
    tl.store(counts_ptr + column, tl.sum(counts, 0), mask=column < 3)


@triton.jit(do_not_specialize=["programs"])
def add_programs_alone(
    sums_ptr, programs, normalizer_ptr, inverse_normalizer, values_ptr, counts_ptr, BLOCK: tl.constexpr,
    READY: tl.constexpr,
):  # fmt: skip
    """Add up the sums of all programs of the launch before, as one program; if READY, once that launch ends."""
    if READY:
        gdc_wait()
    add_programs(sums_ptr, programs, normalizer_ptr, inverse_normalizer, values_ptr, counts_ptr, BLOCK)


@triton.jit
def _as_counts(at):
    """Read an address of float32 as one of int32."""
    return at.to(tl.pointer_type(tl.int32), bitcast=True)
