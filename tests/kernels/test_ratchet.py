"""What the fused loss takes by its machine code, held so that it does not grow unseen."""

from __future__ import annotations

from collections import Counter

import pytest

from mptctl.bench.loss_timing import least_bytes
from tests.kernels.kernel_bounds import bound_row, count_kinds
from tests.versions import counted_with

pytest.importorskip("triton")

from tests.kernels.machine_code import DISASSEMBLER

if not DISASSEMBLER.exists():
    pytest.skip("Triton came without its disassembler", allow_module_level=True)

# Instructions a thread and logit of the student at 4,096 rows.
INSTRUCTIONS = {
    ("sm_80", 100, "float32"): 45.8,
    ("sm_80", 100, "bfloat16"): 49.2,
    ("sm_80", 1000, "float32"): 44.1,
    ("sm_80", 1000, "bfloat16"): 48.4,
    ("sm_80", 21_841, "float32"): 44.1,
    ("sm_80", 21_841, "bfloat16"): 50.2,
    # More lanes a row, and more warps a wide row, are faster on an H200, for all the instructions of each for a row.
    ("sm_90", 100, "float32"): 75.4,
    ("sm_90", 100, "bfloat16"): 78.8,
    ("sm_90", 1000, "float32"): 44.8,
    ("sm_90", 1000, "bfloat16"): 49.4,
    ("sm_90", 21_841, "float32"): 86.7,
    ("sm_90", 21_841, "bfloat16"): 57.6,
    ("sm_100", 100, "float32"): 45.2,
    ("sm_100", 100, "bfloat16"): 48.6,
    ("sm_100", 1000, "float32"): 42.0,
    ("sm_100", 1000, "bfloat16"): 46.3,
    ("sm_100", 21_841, "float32"): 41.8,
    ("sm_100", 21_841, "bfloat16"): 46.2,
}
# Each takes two seconds to compile. By day: those that other tests compile too, and wide rows in half precision.
BY_DAY = {
    *(("sm_90", 100, "float32"), ("sm_90", 1000, "float32"), ("sm_90", 21_841, "bfloat16")),
    ("sm_100", 1000, "float32"),
}
# Figures are rounded; a release's corrections may move one or the other instruction.
SLACK = 1.03
# The largest share of the time that memory takes that issuing instructions may take.
OF_FLOOR = {"float32": 1.0, "bfloat16": 1.3}
# 1.325 and 1.434 were counted there.
OF_FLOOR_AT = {("sm_100", 100, "bfloat16"): 1.33, ("sm_90", 100, "bfloat16"): 1.44}


@counted_with("triton")
@pytest.mark.parametrize(
    ("arch", "c", "dtype"),
    [pytest.param(*size, marks=[] if size in BY_DAY else [pytest.mark.nightly]) for size in INSTRUCTIONS],
)
def test_instructions_do_not_grow(arch: str, c: int, dtype: str) -> None:
    row = bound_row(4096, c, dtype, arch)

    assert not row.spills
    assert row.issue_us <= OF_FLOOR_AT.get((arch, c, dtype), OF_FLOOR[dtype]) * row.floor_us
    assert sum(row.instructions.values()) <= SLACK * INSTRUCTIONS[arch, c, dtype]


def test_kinds_of_instructions_by_hand() -> None:
    kinds = count_kinds(
        Counter({"FFMA.FTZ": 3, "FMUL": 2, "MUFU.EX2": 4, "LDG.E.128": 1, "FSETP.GT.AND": 1, "NOP": 2})
    )
    assert kinds == {
        "arithmetic": 5, "compare and select": 1, "special": 4, "convert and bits": 0, "integer": 0, "exchange": 0,
        "load and store": 1, "other": 2,
    }  # fmt: skip


# Triton 3.6 packs no additions for sm_100 either.
@counted_with("triton")
@pytest.mark.parametrize(("arch", "packs"), [("sm_90", False), ("sm_100", True)])
def test_two_additions_in_one_instruction_are_twice_the_work_of_their_unit(arch: str, packs: bool) -> None:
    row = bound_row(4096, 1000, "float32", arch)
    # Arithmetic has as many lanes as all instructions together, on both GPUs.
    issued = row.issue_us * row.instructions["arithmetic"] / sum(row.instructions.values())
    assert row.fma_us >= 0.99 * issued
    assert (row.fma_us > 1.03 * issued) == packs


def test_the_bounds_are_those_of_the_definitions() -> None:
    row = bound_row(4096, 100, "float32", "sm_90")

    assert not row.spills
    assert row.floor_us == pytest.approx(1e6 * least_bytes(4096, 100, 50, 4) / 4.31e12, abs=0.01)
    # A thread's instructions a logit, over 32 lanes of 4 schedulers of 132 multiprocessors at 1.98 GHz.
    a_logit = sum(row.instructions.values())
    assert row.issue_us == pytest.approx(1e6 * a_logit * 4096 * 100 / (32 * 4 * 132 * 1.98e9), rel=0.02)
    assert row.sfu_us == pytest.approx(
        1e6 * row.instructions["special"] * 4096 * 100 / (16 * 132 * 1.98e9), rel=0.02
    )
