"""What the fused loss takes by its machine code, held so that it does not grow unseen."""

from __future__ import annotations

import pytest

from mptctl.bench.kernel_bounds import bound_row

pytest.importorskip("triton")
import triton

from mpt_kernels.machine_code import DISASSEMBLER

if not DISASSEMBLER.exists():
    pytest.skip("Triton came without its disassembler", allow_module_level=True)

# Instructions a thread and logit of the student at 4,096 rows, by release of Triton, as `bench kernel` counted them.
INSTRUCTIONS = {
    ("sm_80", 100, "float32"): {"3.8": 45.8, "3.9": 45.3},
    ("sm_80", 100, "bfloat16"): {"3.8": 49.2, "3.9": 48.8},
    ("sm_80", 1000, "float32"): {"3.8": 44.1, "3.9": 43.1},
    ("sm_80", 1000, "bfloat16"): {"3.8": 48.4, "3.9": 47.3},
    ("sm_80", 21_841, "float32"): {"3.8": 44.1, "3.9": 44.1},
    ("sm_80", 21_841, "bfloat16"): {"3.8": 50.2, "3.9": 50.2},
    ("sm_90", 100, "float32"): {"3.8": 45.9, "3.9": 45.8},
    ("sm_90", 100, "bfloat16"): {"3.8": 49.3, "3.9": 49.2},
    ("sm_90", 1000, "float32"): {"3.8": 44.0, "3.9": 43.1},
    ("sm_90", 1000, "bfloat16"): {"3.8": 48.2, "3.9": 47.3},
    ("sm_90", 21_841, "float32"): {"3.8": 44.3, "3.9": 44.3},
    ("sm_90", 21_841, "bfloat16"): {"3.8": 50.5, "3.9": 50.5},
    ("sm_100", 100, "float32"): {"3.8": 45.2, "3.9": 43.7},
    ("sm_100", 100, "bfloat16"): {"3.8": 48.6, "3.9": 47.0},
    ("sm_100", 1000, "float32"): {"3.8": 42.0, "3.9": 39.9},
    ("sm_100", 1000, "bfloat16"): {"3.8": 46.3, "3.9": 44.7},
    ("sm_100", 21_841, "float32"): {"3.8": 41.8, "3.9": 41.7},
    ("sm_100", 21_841, "bfloat16"): {"3.8": 46.2, "3.9": 46.0},
}
# Figures are rounded; a release's corrections may move one or the other instruction.
SLACK = 1.03
RELEASE = ".".join(triton.__version__.split(".")[:2])
# The largest share of the time that memory takes that issuing instructions may take; one size is above with Triton 3.8.
OF_FLOOR = {"float32": 1.0, "bfloat16": 1.3}
ABOVE = {("3.8", "sm_100", 100, "bfloat16"): 1.33}


@pytest.mark.parametrize(
    ("arch", "c", "dtype"),
    [pytest.param(*size, marks=[] if size[0] == "sm_90" else [pytest.mark.slow]) for size in INSTRUCTIONS],
)
def test_instructions_do_not_grow(arch: str, c: int, dtype: str) -> None:
    row = bound_row(4096, c, dtype, arch)

    assert row.issue_us is not None
    assert not row.spills
    assert row.issue_us <= ABOVE.get((RELEASE, arch, c, dtype), OF_FLOOR[dtype]) * row.floor_us
    if RELEASE not in INSTRUCTIONS[arch, c, dtype]:
        pytest.skip(
            f"instructions were not counted with Triton {RELEASE}; of the time, they took no more than wanted"
        )
    assert row.instructions is not None
    assert sum(row.instructions.values()) <= SLACK * INSTRUCTIONS[arch, c, dtype][RELEASE]
