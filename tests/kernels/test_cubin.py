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
from mpt_kernels.triton_backend import Loop
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
    # Nothing is stored or loaded within a loop. While one runs, four values may wait on the stack, as with Triton 3.9:
    # 8 of the 4,598 instructions that a warp executes.
    spilled = compiled.count_executed(r"(LDL|STL)\b.*")
    assert spilled == compiled.count(r"(LDL|STL)\b.*") <= 8, compiled
    if is_counted("triton"):
        assert not compiled.spills, compiled
    if logits.stride(0) * dtype.itemsize % 16:
        return
    whole = compiled.count(r"LDG\..*128.*")
    assert whole > 0, compiled
    if is_counted("triton"):
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
    counts = Counter([instruction])
    code = MachineCode(registers=32, stack=stack, local=local, instructions=counts, executed=counts)
    assert code.spills == spills


# A loop, one that the assembler has unrolled twice, and one that it has unrolled to its end; a jump forward with and
# one without a condition; one over a loop for rare rows; and behind the end a block that is branched to and comes back.
DISASSEMBLY = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;          /* 0x00 */
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ; /* 0x00 */
        /*0020*/              @!P1 LDG.E R3, desc[UR4][R6.64] ;    /* 0x00 */
        /*0030*/               @P0 BRA 0x10 ;                      /* 0x00 */
        /*0040*/               @P2 BRA 0x60 ;                      /* 0x00 */
        /*0050*/                   MUFU.EX2 R4, R3 ;               /* 0x00 */
        /*0060*/                   LDG.E.64 R4, desc[UR4][R2.64] ; /* 0x00 */
        /*0070*/                   STG.E.U16 desc[UR4][R2.64], R4 ; /* 0x00 */
        /*0080*/                   LDG.E.64 R4, desc[UR4][R2.64] ; /* 0x00 */
        /*0090*/                   STG.E.U16 desc[UR4][R2.64], R4 ; /* 0x00 */
        /*00a0*/              @!P3 BRA 0x60 ;                      /* 0x00 */
        /*00b0*/               @P4 BRA 0x100 ;                     /* 0x00 */
        /*00c0*/                   STG.E.128 desc[UR4][R2.64], R4 ; /* 0x00 */
        /*00d0*/                   BRA.U UP1, 0xc0 ;               /* 0x00 */
        /*00e0*/                   SHFL.BFLY PT, R4, R3, 0x1 ;     /* 0x00 */
        /*00f0*/                   BRA.DIV UR6, 0x140 ;            /* 0x00 */
        /*0100*/                   BRA 0x120 ;                     /* 0x00 */
        /*0110*/                   FFMA R5, R5, R5, R5 ;           /* 0x00 */
        /*0120*/                   EXIT ;                          /* 0x00 */
        /*0130*/                   BRA 0x130;                      /* 0x00 */
        /*0140*/                   NOP;                            /* 0x00 */
        /*0150*/                   BRA 0x100;                      /* 0x00 */
"""


def test_what_a_warp_executes_by_hand() -> None:
    code = machine_code.read_instructions(DISASSEMBLY)
    loops = (Loop(5, 20, 0), Loop(3, 20, 0), Loop(7, 8, 2), Loop(9, 0, 16, rare=True))
    assert machine_code.count_executed(code, loops) == {
        "LDC": 1, "LDG.E.128": 5, "LDG.E": 5, "MUFU.EX2": 1, "LDG.E.64": 2 * 3, "STG.E.U16": 2 * 3,
        "BRA": 5 + 1 + 3 + 1 + 1, "EXIT": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match="a loop that loads 16 bytes and stores 4 is none of the kernel's"):
        machine_code.count_executed(code, loops[:2])
    # Rare loops are skipped only where the kernel says so.
    executed = machine_code.count_executed(code, (Loop(5, 20, 0), Loop(7, 8, 2), Loop(9, 0, 16)))
    assert executed["STG.E.128"] == executed["BRA.U"] == 9
    assert executed["SHFL.BFLY"] == executed["BRA.DIV"] == 1
