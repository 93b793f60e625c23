"""Machine code of the kernels for GPUs that need not be here: no spills, and 16-byte loads where rows are aligned."""

import os
from collections import Counter
from typing import Any

import pytest
import torch
from _pytest.mark import ParameterSet
from torch import Tensor

from mpt_kernels import triton_backend
from mpt_kernels.layouts import NarrowLayout
from mpt_kernels.types import LossSettings
from tests.kernels import machine_code
from tests.kernels.machine_code import MachineCode
from tests.versions import is_counted

if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("the interpreter compiles nothing", allow_module_level=True)

CAPABILITIES = [80, 90, 100]
# Each case compiles a kernel. By day one of each kind is compiled for one GPU; kernels/test_ratchet.py compiles
# more by day, for other GPUs too, and refuses spills.
BY_DAY = {(100, 48, 1, torch.float32), (1000, 504, 1, torch.bfloat16), (21_841, 10_920, 16, torch.bfloat16)}


def of_the_night(*case: Any) -> ParameterSet:
    """A shape, a type and a GPU, which are met at night alone where the rule above says so."""
    by_day = case[-1] == 90 and case[:4] in BY_DAY
    return pytest.param(*case, marks=[] if by_day else [pytest.mark.nightly])


def rows(c: int, dtype: torch.dtype, pad: int = 1) -> Tensor:
    """(4096, c) without data, each row's storage rounded up to a multiple of `pad` elements."""
    return torch.empty(4096, -(-c // pad) * pad, dtype=dtype, device="meta")[:, :c]


# Loads of single elements of aligned rows: the label, for rows and for tiles, three logits at the label, the scale, the
# normaliser; of narrow rows those before the label, one or two a lane and model; one a model of rows that are summed
# again.
SCALARS = {100: 13, 1000: 13, 21_841: 9}


@pytest.mark.parametrize(
    ("c", "num_old", "pad", "dtype", "capability"),
    [
        of_the_night(*shape, dtype, capability)
        for shape in [(100, 48, 1), (1000, 504, 1), (21_841, 10_920, 1), (21_841, 10_920, 16)]
        for dtype in (torch.float32, torch.bfloat16)
        for capability in CAPABILITIES
    ],
)
def test_nothing_spills_in_a_loop_and_aligned_rows_are_loaded_sixteen_bytes_at_a_time(
    c: int, num_old: int, pad: int, dtype: torch.dtype, capability: int
) -> None:
    logits, old, ref = rows(c, dtype, pad), rows(num_old, dtype, pad), rows(c, dtype, pad)
    _, compiled = machine_code.compile_launch(logits, old, ref, LossSettings(num_old=num_old), capability)
    # One value may wait on the stack while a loop runs: one store and one load.
    assert compiled.count(r"(LDL|STL)\b.*") <= 2, compiled
    if logits.stride(0) * dtype.itemsize % 16:
        return
    whole = compiled.count(r"LDG\..*128.*")
    assert whole > 0, compiled
    if is_counted("triton"):
        assert not compiled.spills, compiled
        assert compiled.count(r"LDG\b.*") - whole <= SCALARS[c], compiled
        # Eight sums of the program, and the label's own gradient.
        assert compiled.count(r"STG\b.*") - compiled.count(r"STG\..*128.*") <= 9, compiled


@pytest.mark.parametrize(
    "settings",
    [
        LossSettings(num_old=501, distance="lm"),
        LossSettings(num_old=501, distance=None, ce_focal_weight=1.0),
        LossSettings(num_old=501, lam_ref=0.0),
    ],
)
@pytest.mark.parametrize("c", [1000, pytest.param(21_841, marks=pytest.mark.nightly)])
def test_the_other_objectives_do_not_spill_either(settings: LossSettings, c: int) -> None:
    logits, old, ref = rows(c, torch.bfloat16), rows(501, torch.float16), rows(c, torch.float32)
    per_row = torch.empty(4096, device="meta")
    _, compiled = machine_code.compile_launch(logits, old, ref, settings, 90, per_row, row_weight=per_row)
    assert not compiled.spills, compiled


def test_whole_loads_of_a_rows_end_stay_within_the_storage() -> None:
    room = torch.empty(4, 40)
    assert triton_backend.row_layout(room[:, :37]) == (40, 1, 40)
    # The last row's vector would end behind the storage: of a storage cut short, and of a slice of the rows' ends.
    cut = torch.empty(3 * 40 + 37).as_strided((4, 37), (40, 1))
    assert triton_backend.row_layout(cut) == (40, 1, 37)
    assert triton_backend.row_layout(room[:, 3:]) == (40, 1, 37)


@pytest.mark.nightly
def test_a_kernel_that_spills_is_found_out() -> None:
    # 64 classes of three models a thread.
    logits, old = rows(1000, torch.float32), rows(504, torch.float32)
    settings, layout = LossSettings(num_old=504), NarrowLayout(held=64)
    _, compiled = machine_code.compile_launch(logits, old, logits, settings, 90, layout=layout)
    assert compiled.spills
    assert compiled.count(r"(LDL|STL)\b.*") > 0


@pytest.mark.parametrize(
    ("stack", "local", "instruction", "spills"),
    [
        (0, 0, "LDG.E", False),
        (8, 0, "LDG.E", True),
        (0, 8, "LDG.E", True),
        (0, 0, "STL", True),
        (0, 0, "LDL.64", True),
    ],
)
def test_spills_by_hand(stack: int, local: int, instruction: str, spills: bool) -> None:
    code = MachineCode(registers=32, stack=stack, local=local, instructions=Counter([instruction]))
    assert code.spills == spills
