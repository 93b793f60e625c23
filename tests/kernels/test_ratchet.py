"""What the fused loss takes by its machine code, held so that it does not grow unseen."""

from __future__ import annotations

import pytest
import torch

from mpt_kernels.types import LossSettings
from mptctl.bench.loss_timing import DTYPES
from tests.versions import counted_with

pytest.importorskip("triton")

from tests.kernels.machine_code import DISASSEMBLER, compile_launch

if not DISASSEMBLER.exists():
    pytest.skip("Triton came without its disassembler", allow_module_level=True)

ROWS = 4096
# Instructions of threads for a logit of the student. At four a clock and multiprocessor they take no longer than memory
# does in float32, and 1.44 times as long at most in bfloat16.
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


@counted_with("triton")
@pytest.mark.parametrize(
    ("arch", "c", "dtype"),
    [pytest.param(*size, marks=[] if size in BY_DAY else [pytest.mark.nightly]) for size in INSTRUCTIONS],
)
def test_instructions_do_not_grow(arch: str, c: int, dtype: str) -> None:
    old, new = (torch.empty(ROWS, width, dtype=DTYPES[dtype], device="meta") for width in (c // 2, c))
    settings, capability = LossSettings(num_old=c // 2), int(arch.removeprefix("sm_"))
    launch, code = compile_launch(new, old, new, settings, capability)
    threads = launch.programs * launch.options["num_warps"] * 32
    assert not code.spills
    assert code.executed.total() * threads / (ROWS * c) <= SLACK * INSTRUCTIONS[arch, c, dtype]
