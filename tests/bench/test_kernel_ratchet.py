"""What the fused loss takes by its machine code, held so that it does not grow unseen."""

from __future__ import annotations

import pytest

from mptctl.bench.kernel_bounds import bound_row
from tests.versions import counted_with

pytest.importorskip("triton")

from mpt_kernels.machine_code import DISASSEMBLER

if not DISASSEMBLER.exists():
    pytest.skip("Triton came without its disassembler", allow_module_level=True)

# Instructions a thread and logit of the student at 4,096 rows, as `bench kernel` counted them.
INSTRUCTIONS = {
    ("sm_80", 100, "float32"): 45.8,
    ("sm_80", 100, "bfloat16"): 49.2,
    ("sm_80", 1000, "float32"): 44.1,
    ("sm_80", 1000, "bfloat16"): 48.4,
    ("sm_80", 21_841, "float32"): 44.1,
    ("sm_80", 21_841, "bfloat16"): 50.2,
    ("sm_90", 100, "float32"): 45.9,
    ("sm_90", 100, "bfloat16"): 49.3,
    ("sm_90", 1000, "float32"): 44.0,
    ("sm_90", 1000, "bfloat16"): 48.2,
    # Sixteen warps a row are faster on an H200, for all the instructions of each warp for a row.
    ("sm_90", 21_841, "float32"): 62.2,
    ("sm_90", 21_841, "bfloat16"): 52.2,
    ("sm_100", 100, "float32"): 45.2,
    ("sm_100", 100, "bfloat16"): 48.6,
    ("sm_100", 1000, "float32"): 42.0,
    ("sm_100", 1000, "bfloat16"): 46.3,
    ("sm_100", 21_841, "float32"): 41.8,
    ("sm_100", 21_841, "bfloat16"): 46.2,
}
# Each compiles a kernel. By day every size is compiled for one GPU, and one size of either kernel for the others.
BY_DAY = {
    size
    for size in INSTRUCTIONS
    if size[0] == "sm_90" or size[1:] in ((100, "float32"), (21_841, "bfloat16"))
}
# Figures are rounded; a release's corrections may move one or the other instruction.
SLACK = 1.03
# The largest share of the time that memory takes that issuing instructions may take.
OF_FLOOR = {"float32": 1.0, "bfloat16": 1.3}
# 1.325 was counted there.
OF_FLOOR_AT = {("sm_100", 100, "bfloat16"): 1.33}


@counted_with("triton")
@pytest.mark.parametrize(
    ("arch", "c", "dtype"),
    [pytest.param(*size, marks=[] if size in BY_DAY else [pytest.mark.nightly]) for size in INSTRUCTIONS],
)
def test_instructions_do_not_grow(arch: str, c: int, dtype: str) -> None:
    row = bound_row(4096, c, dtype, arch)

    assert row.issue_us is not None
    assert not row.spills
    assert row.issue_us <= OF_FLOOR_AT.get((arch, c, dtype), OF_FLOOR[dtype]) * row.floor_us
    assert row.instructions is not None
    assert sum(row.instructions.values()) <= SLACK * INSTRUCTIONS[arch, c, dtype]
