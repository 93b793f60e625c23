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

# Instructions of the row kernel's machine code at 4,096 rows.
INSTRUCTIONS = {
    ("sm_80", 100, "float32"): 1280,
    ("sm_80", 100, "bfloat16"): 1376,
    ("sm_80", 1000, "float32"): 1504,
    ("sm_80", 1000, "bfloat16"): 1648,
    ("sm_80", 21_841, "float32"): 2872,
    ("sm_80", 21_841, "bfloat16"): 3160,
    ("sm_90", 100, "float32"): 1080,
    ("sm_90", 100, "bfloat16"): 1128,
    ("sm_90", 1000, "float32"): 1568,
    ("sm_90", 1000, "bfloat16"): 1720,
    ("sm_90", 21_841, "float32"): 2024,
    ("sm_90", 21_841, "bfloat16"): 4016,
    ("sm_100", 100, "float32"): 1272,
    ("sm_100", 100, "bfloat16"): 1360,
    ("sm_100", 1000, "float32"): 1440,
    ("sm_100", 1000, "bfloat16"): 1576,
    ("sm_100", 21_841, "float32"): 2768,
    ("sm_100", 21_841, "bfloat16"): 2976,
}
# Each takes two seconds to compile. By day: those that other tests compile too, and wide rows in half precision.
BY_DAY = {
    *(("sm_90", 100, "float32"), ("sm_90", 1000, "float32"), ("sm_90", 21_841, "bfloat16")),
    ("sm_100", 1000, "float32"),
}
# A release's corrections may move one or the other instruction.
SLACK = 1.03


@counted_with("triton")
@pytest.mark.parametrize(
    ("arch", "c", "dtype"),
    [pytest.param(*size, marks=[] if size in BY_DAY else [pytest.mark.nightly]) for size in INSTRUCTIONS],
)
def test_instructions_do_not_grow(arch: str, c: int, dtype: str) -> None:
    old, new = (torch.empty(4096, width, dtype=DTYPES[dtype], device="meta") for width in (c // 2, c))
    settings, capability = LossSettings(num_old=c // 2), int(arch.removeprefix("sm_"))
    _, code = compile_launch(new, old, new, settings, capability)
    assert not code.spills
    assert code.instructions.total() <= SLACK * INSTRUCTIONS[arch, c, dtype]
