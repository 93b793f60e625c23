"""What the kernels compile to for GPUs that need not be here: no spills, and 16-byte loads where rows are aligned."""

import os

import pytest
import torch
import triton
from torch import Tensor

from mpt_kernels import machine_code, triton_backend
from mpt_kernels.triton_backend import Loop
from mpt_kernels.types import LossSettings

if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("the interpreter compiles nothing", allow_module_level=True)

CAPABILITIES = [80, 90, 100]


def rows(c: int, dtype: torch.dtype, pad: int = 1) -> Tensor:
    """(4096, c) without data, each row's storage rounded up to a multiple of `pad` elements."""
    return torch.empty(4096, -(-c // pad) * pad, dtype=dtype, device="meta")[:, :c]


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("c", "num_old", "pad"), [(100, 48, 1), (1000, 504, 1), (21_841, 10_920, 1), (21_841, 10_920, 16)]
)
def test_nothing_spills_and_aligned_rows_are_loaded_sixteen_bytes_at_a_time(
    c: int, num_old: int, pad: int, dtype: torch.dtype, capability: int
) -> None:
    logits, old, ref = rows(c, dtype, pad), rows(num_old, dtype, pad), rows(c, dtype, pad)
    _, compiled = machine_code.compile_launch(logits, old, ref, LossSettings(num_old=num_old), capability)

    # Triton 3.8 keeps one value of wide rows on the stack, from before a loop to after it; nothing in a loop.
    stored = 2 if triton.__version__.startswith("3.8.") and c > 1000 else 0
    assert sum(n for name, n in compiled.executed.items() if name.startswith(("LDL", "STL"))) <= stored, (
        compiled
    )
    assert not compiled.spills or stored, compiled
    if logits.stride(0) * logits.element_size() % 16 == 0:
        # One element at a time: the label, for rows as they lie and for tiles, three logits at the label, the
        # normaliser, the scale; of narrow rows those before the label, one or two a lane and model; and one a model of
        # rows that are summed again. Triton 3.6 reads one of them twice.
        scalars = (8 if triton.__version__.startswith("3.6.") else 7) + (6 if c <= 1000 else 0) + 3
        assert compiled.count(r"LDG\..*128.*") > 0, compiled
        assert compiled.count(r"LDG\b.*") - compiled.count(r"LDG\..*128.*") <= scalars, compiled
        # The four results of a row, and the label's own gradient.
        assert compiled.count(r"STG\b.*") - compiled.count(r"STG\..*128.*") <= 5, compiled


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("c", [100, 1000, 21_841])
def test_a_small_batch_is_one_launch_whose_last_program_sees_what_all_have_written(
    c: int, capability: int
) -> None:
    logits, old = rows(c, torch.bfloat16)[:128], rows(c // 2, torch.bfloat16)[:128]
    launch, compiled = machine_code.compile_launch(
        logits, old, logits, LossSettings(num_old=c // 2), capability
    )
    assert launch.sums_rows
    # Triton 3.8 keeps one address on the stack until the end, on sm_80.
    stored = 2 if triton.__version__.startswith("3.8.") else 0
    assert sum(n for name, n in compiled.executed.items() if name.startswith(("LDL", "STL"))) <= stored, (
        compiled
    )
    # Stores before the arrival are made visible to the whole GPU, and what the cache holds from before is dropped.
    order = [name.partition(".")[0] for name in compiled.instructions]
    assert order.index("MEMBAR") < order.index("ATOMG") < order.index("CCTL"), compiled


@pytest.mark.parametrize(
    "settings",
    [
        LossSettings(num_old=501, distance="lm"),
        LossSettings(num_old=501, distance=None, ce_focal_weight=1.0),
        LossSettings(num_old=501, lam_ref=0.0),
    ],
)
@pytest.mark.parametrize("c", [1000, 21_841])
def test_the_other_objectives_do_not_spill_either(settings: LossSettings, c: int) -> None:
    logits, old, ref = rows(c, torch.bfloat16), rows(501, torch.float16), rows(c, torch.float32)
    per_row = torch.empty(4096, device="meta")
    _, compiled = machine_code.compile_launch(logits, old, ref, settings, 90, k_rows=per_row)
    assert not compiled.spills, compiled


def test_whole_loads_of_a_rows_end_stay_within_the_storage() -> None:
    room = torch.empty(4, 40)
    assert triton_backend.row_layout(room[:, :37]) == (40, 1, 40)
    # The last row's vector would end behind the storage: of a storage cut short, and of a slice of the rows' ends.
    cut = torch.empty(3 * 40 + 37).as_strided((4, 37), (40, 1))
    assert triton_backend.row_layout(cut) == (40, 1, 37)
    assert triton_backend.row_layout(room[:, 3:]) == (40, 1, 37)


def test_a_kernel_that_spills_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # 128 classes of three models a thread.
    monkeypatch.setattr(triton_backend, "HELD", 128)
    logits, old = rows(1000, torch.float32), rows(504, torch.float32)
    _, compiled = machine_code.compile_launch(logits, old, logits, LossSettings(num_old=504), 90)
    assert compiled.spills
    assert compiled.count(r"(LDL|STL)\b.*") > 0


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


def test_rare_loops_are_skipped_only_where_the_kernel_says_so() -> None:
    code = machine_code.read_instructions(DISASSEMBLY)
    loops = (Loop(5, 20, 0), Loop(7, 8, 2), Loop(9, 0, 16))
    executed = machine_code.count_executed(code, loops)
    assert executed["STG.E.128"] == executed["BRA.U"] == 9
    assert executed["SHFL.BFLY"] == executed["BRA.DIV"] == 1
