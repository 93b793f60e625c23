"""Computes lower bounds on the fused loss's time on a GPU from its machine code; needs no GPU."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import torch

from mpt_kernels.types import LossSettings
from mptctl.bench.loss_timing import DTYPES, least_bytes


class Gpu(NamedTuple):
    """The speed of a GPU.

    Attributes:
        name: of the GPU.
        multiprocessors: number of multiprocessors.
        clock: boost clock in Hz.
        bandwidth: bytes read and written a second by a copy.
        fma: lanes a clock of a multiprocessor's unit for single-precision arithmetic.
        alu: lanes a clock of its unit for comparisons and bits.
        sfu: lanes a clock of its unit for special functions.
    """

    name: str
    multiprocessors: int
    clock: float
    bandwidth: float
    fma: int
    alu: int
    sfu: int


# Lanes: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions". A copy on an H200 was
# measured at 4.31 TB/s, 0.898 of the datasheet's 4.8 TB/s. The bandwidth of A100 and B200 is the same
# fraction of their datasheets' 2.04 and 8 TB/s.
GPUS = {
    "sm_80": Gpu("A100", 108, 1.41e9, 0.898 * 2.04e12, 64, 64, 16),
    "sm_90": Gpu("H200", 132, 1.98e9, 4.31e12, 128, 64, 16),
    "sm_100": Gpu("B200", 148, 1.965e9, 0.898 * 8.0e12, 128, 64, 16),
}
# Each of a multiprocessor's four schedulers issues one warp instruction a clock.
SCHEDULERS, LANES = 4, 32
# Opcodes of each kind of instructions, and the unit that executes the kind if that unit may bind.
KINDS = {
    "arithmetic": (r"FADD|FMUL|FFMA|FADD2|FMUL2|FFMA2", "fma"),
    "compare and select": (r"FMNMX3?|FSETP?|FSEL|ISETP|SEL|PLOP3|P2R|R2P|HSETP2|HMNMX2|V?IMNMX3?", "alu"),
    "special": (r"MUFU", "sfu"),
    "convert and bits": (r"F2FP|F2F|I2FP?|F2I|PRMT|LOP3|SHF|HADD2|HFMA2|HMUL2", "alu"),
    "integer": (r"IMAD|IADD3|IADD|VIADD|LEA|MOV|ISCADD|IABS", None),
    "exchange": (r"SHFL|REDUX|VOTEU?|MATCH|STS|LDS|LDSM|STSM|BAR|WARPSYNC|MEMBAR", None),
    "load and store": (r"LDG|STG|LDC|LDL|STL|ULDC|LDCU|LD|ST", None),
}


class Bounds(NamedTuple):
    """Lower bounds on the time of the row kernel at one size, in microseconds, and what they are computed from.

    Attributes:
        floor_us: the bytes that must be moved, at the speed of a copy.
        issue_us: warp instructions at four a clock and multiprocessor.
        fma_us, alu_us, sfu_us: arithmetic, comparisons and bits, and powers of two, at their unit's rate.
        instructions: executed instructions a thread and logit of the student, by kind.
        spills: whether a thread keeps something in local memory.
    """

    floor_us: float
    issue_us: float
    fma_us: float
    alu_us: float
    sfu_us: float
    instructions: dict[str, float]
    spills: bool


def bound_row(n: int, c: int, dtype: str, arch: str) -> Bounds:
    """Compile the row kernel of the MPT-KL loss for a GPU, and compute bounds from its instructions.

    The second kernel, which adds up programs, is not in the bounds.

    Args:
        n, c: number of rows and of classes; half of the classes are old.
        dtype: type of all logits, a key of `DTYPES`.
        arch: a key of `GPUS`.

    Raises:
        ImportError: Triton is not installed.
        FileNotFoundError: Triton was installed without its disassembler.
    """
    from tests.kernels.machine_code import compile_launch  # imports Triton

    gpu, c_old, of_type = GPUS[arch], c // 2, DTYPES[dtype]

    def logits(width: int) -> torch.Tensor:
        return torch.empty(n, width, dtype=of_type, device="meta")

    settings = LossSettings(num_old=c_old)
    launch, code = compile_launch(
        logits(c), logits(c_old), logits(c), settings, int(arch.removeprefix("sm_"))
    )
    warps: int = launch.programs * launch.options["num_warps"]

    def microseconds(instructions: int, lanes_a_clock: int) -> float:
        """Time of instructions of each warp on a unit of so many lanes."""
        return 1e6 * instructions * warps * LANES / (gpu.multiprocessors * lanes_a_clock * gpu.clock)

    kinds = count_kinds(code.executed)
    units: Counter[str | None] = Counter()
    for kind, count in kinds.items():
        units[KINDS[kind][1] if kind in KINDS else None] += count
    # Instructions of two operations are issued once, and take their unit twice as long.
    units["fma"] += code.count_executed(r"(FADD2|FMUL2|FFMA2)\b.*")
    return Bounds(
        floor_us=1e6 * least_bytes(n, c, c_old, of_type.itemsize) / gpu.bandwidth,
        issue_us=microseconds(code.executed.total(), SCHEDULERS * LANES),
        fma_us=microseconds(units["fma"], gpu.fma),
        alu_us=microseconds(units["alu"], gpu.alu),
        sfu_us=microseconds(units["sfu"], gpu.sfu),
        instructions={kind: round(count * warps * LANES / n / c, 2) for kind, count in kinds.items()},
        spills=code.spills,
    )


def count_kinds(executed: Counter[str]) -> dict[str, int]:
    """Count executed instructions by kind: the kinds of `KINDS`, and "other".

    Args:
        executed: how often each instruction is executed, by its name with modifiers, such as ``LDG.E.128``.
    """
    kinds = dict.fromkeys([*KINDS, "other"], 0)
    for name, count in executed.items():
        opcode = name.partition(".")[0]
        matching = (kind for kind, (opcodes, _) in KINDS.items() if re.fullmatch(opcodes, opcode))
        kinds[next(matching, "other")] += count
    return kinds
