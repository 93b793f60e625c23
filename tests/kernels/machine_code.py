"""Compiles the row kernels for any GPU, without a GPU, and counts the instructions of a warp."""

import math
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mpt_kernels import triton_backend
from mpt_kernels.layouts import NarrowLayout, WideLayout
from mpt_kernels.triton_backend import Launch, Loop
from mpt_kernels.types import LossSettings

# Part of Triton's wheel for NVIDIA.
DISASSEMBLER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
POINTERS = {
    torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16",
    torch.int64: "*i64", torch.int32: "*i32",
}  # fmt: skip

# A line of a disassembly: an address in a comment, sometimes a predicate, the instruction, its operands.
_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+ +)?([A-Z][\w.]*)([^;]*)", re.MULTILINE)


class MachineCode(NamedTuple):
    """A compiled kernel.

    Attributes:
        registers: number of registers of a thread.
        stack, local: bytes of stack and of local memory of a thread.
        instructions: number of instructions in the code, by name.
        executed: number of instructions that a warp executes, by name; one in a loop counts once a round.
    """

    registers: int
    stack: int
    local: int
    instructions: Counter[str]
    executed: Counter[str]

    def count(self, pattern: str) -> int:
        """Count the instructions in the code whose whole name matches a regular expression."""
        return _count_matching(self.instructions, pattern)

    def count_executed(self, pattern: str) -> int:
        """Count the executed instructions whose whole name matches a regular expression."""
        return _count_matching(self.executed, pattern)

    @property
    def spills(self) -> bool:
        """Tell whether a thread keeps values in local memory for lack of registers."""
        return self.stack > 0 or self.local > 0 or self.count(r"(LDL|STL)\b.*") > 0


class Instruction(NamedTuple):
    """A line of a disassembly.

    Attributes:
        address: of the instruction in the code.
        conditional: whether the instruction depends on a predicate.
        name: with suffixes, such as ``LDG.E.128``.
        target: address to which a branch goes; None for other instructions.
    """

    address: int
    conditional: bool
    name: str
    target: int | None


def compile_launch(
    logits: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    settings: LossSettings,
    capability: int,
    k_rows: Tensor | None = None,
    row_weight: Tensor | None = None,
    layout: NarrowLayout | WideLayout | None = None,
) -> tuple[Launch, MachineCode]:
    """Compile the row kernel that `mpt_loss` would launch on these tensors.

    Args:
        logits, old_logits, ref_logits, settings, k_rows, row_weight, layout: as for `triton_backend.plan`;
            meta tensors will do.
        capability: compute capability of the GPU, 90 for 9.0.

    Raises:
        FileNotFoundError: Triton was installed without its disassembler.
        ValueError: the machine code has a loop that the kernel does not have.
    """
    target = torch.empty(logits.shape[0], dtype=torch.int64, device="meta")
    _, grad, _ = triton_backend.empty_outputs(logits)
    launch = triton_backend.plan(
        logits, target, old_logits, ref_logits, k_rows, grad, settings, row_weight, layout, capability
    )
    tensors = {
        "z_ptr": logits,
        "y_ptr": target,
        "old_ptr": old_logits,
        "ref_ptr": ref_logits,
        "k_ptr": k_rows,
        "weight_ptr": row_weight,
        "normalizer_ptr": torch.empty((), device="meta"),
        "scale_ptr": torch.empty((), device="meta"),
        "grad_ptr": grad,
        "sums_ptr": torch.empty((2, 1, 4), device="meta"),
    }
    signature: dict[str, str] = {}
    constants: dict[str, Any] = dict(launch.constants)
    for name in launch.kernel.arg_names:
        tensor = tensors.get(name)
        if tensor is not None:
            signature[name] = POINTERS[tensor.dtype]
        elif name in tensors or name in constants:
            signature[name] = "constexpr"
            constants.setdefault(name, None)
        else:
            signature[name] = "i32" if name in ("n_rows", "ignore_index") else "fp32"
    return launch, compile_kernel(
        launch.kernel, signature, constants, launch.options, capability, launch.loops
    )


def compile_kernel(
    kernel: Any,
    signature: dict[str, str],
    constants: dict[str, Any],
    options: dict[str, Any],
    capability: int,
    loops: tuple[Loop, ...] = (),
) -> MachineCode:
    """Compile a kernel of Triton with all pointers 16-byte aligned, and disassemble it.

    Args:
        kernel: a function of Triton.
        signature: Triton's type of each argument, by name; "constexpr" for constants.
        constants: value of each constant, by name.
        options: of Triton's compiler.
        capability: compute capability of the GPU, 90 for 9.0.
        loops: of the kernel, in the order of its code.

    Raises:
        FileNotFoundError: Triton was installed without its disassembler.
        ValueError: the machine code has a loop that is not in ``loops``.
    """
    names = list(signature)
    # Triton's attributes of each pointer, by its place among the arguments.
    attrs = {
        (names.index(name),): [["tt.divisibility", 16]]
        for name, kind in signature.items()
        if kind.startswith("*")
    }
    source = ASTSource(kernel, signature, constants, attrs)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = _disassemble("--dump-resource-usage", file.name)
        code = read_instructions(_disassemble("--dump-sass", file.name))
    used = dict(re.findall(r"\b(\w+):(\d+)", usage))
    registers, stack, local = (int(used[word]) for word in ("REG", "STACK", "LOCAL"))
    return MachineCode(
        registers, stack, local, Counter(line.name for line in code), count_executed(code, loops)
    )


def read_instructions(disassembly: str) -> list[Instruction]:
    """Parse the instructions of one kernel from what `cuobjdump --dump-sass` prints."""
    lines = []
    for address, predicate, name, operands in _LINE.findall(disassembly):
        branch = re.search(r"\b0x([0-9a-f]+)\s*$", operands) if name.startswith("BRA") else None
        conditional = bool(predicate) or name == "BRA.DIV" or re.search(r"\bU?P\d", operands) is not None
        target = int(branch[1], 16) if branch else None
        lines.append(Instruction(int(address, 16), conditional, name, target))
    return lines


def count_executed(code: list[Instruction], loops: tuple[Loop, ...]) -> Counter[str]:
    """Count the instructions that a warp executes from the kernel's first to its last, by name.

    A conditional branch forward is taken only to skip a rare loop, so everything else that a condition may
    skip is counted. A branch forward without condition is taken. A branch back ends a loop.

    Args:
        code: of `read_instructions`.
        loops: of the kernel, in the order in which they begin.

    Raises:
        ValueError: the code has a loop that is not in ``loops``.
    """
    bodies = _find_loops(code, loops)
    rare_begins = [body.begin for body in bodies if body.rounds == 0]
    place = {line.address: i for i, line in enumerate(code)}
    executed: Counter[str] = Counter()
    i = 0
    while i < len(code):
        line = code[i]
        executed[line.name] += math.prod(b.rounds for b in bodies if b.begin <= line.address <= b.end)
        if line.name == "EXIT" and not line.conditional:
            break
        i += 1
        if line.target is not None and line.target > line.address:
            skips_rare = any(line.address < begin < line.target for begin in rare_begins)
            if skips_rare or not line.conditional:
                i = place[line.target]
    return executed


class _LoopBody(NamedTuple):
    """Addresses of a loop's first and last instruction, and its number of rounds; 0 for a rare loop."""

    begin: int
    end: int
    rounds: int


def _find_loops(code: list[Instruction], loops: tuple[Loop, ...]) -> list[_LoopBody]:
    """Find the loops in machine code, and match them in order with the kernel's by the bytes that they move.

    The assembler may unroll a loop: its body then moves a multiple of the bytes of one round, and goes round
    that much less often. A loop that is unrolled as a whole has no branch, and is not found.

    Raises:
        ValueError: the code has a loop that is not in ``loops``.
    """
    # Behind the kernel's end lie blocks that branch back into the code; these branches are no loops.
    end_of_code = max(line.address for line in code if line.name == "EXIT" and not line.conditional)
    branches_back = sorted(
        (line.target, line.address)
        for line in code
        if line.target is not None and line.target < line.address < end_of_code
    )
    bodies, remaining = [], list(loops)
    for begin, end in branches_back:
        names = [line.name for line in code if begin <= line.address <= end]
        loaded = sum(access_bytes(name) for name in names if name.startswith("LDG"))
        stored = sum(access_bytes(name) for name in names if name.startswith("STG"))
        while remaining and not _unrolled_rounds(remaining[0], loaded, stored):
            remaining.pop(0)
        if not remaining:
            raise ValueError(f"a loop that loads {loaded} bytes and stores {stored} is none of the kernel's")
        loop = remaining.pop(0)
        rounds = 0 if loop.rare else loop.trips // _unrolled_rounds(loop, loaded, stored)
        bodies.append(_LoopBody(begin, end, rounds))
    return bodies


def access_bytes(name: str) -> int:
    """The bytes that a load or store instruction moves for one thread, by its name."""
    width = re.search(r"\.[US]?(8|16|64|128|256)\b", name)
    return int(width[1]) // 8 if width else 4


def _unrolled_rounds(loop: Loop, loaded: int, stored: int) -> int:
    """Count a loop's rounds in a body that moves these bytes of a thread; 0 if the body is not its own."""
    rounds = loaded // loop.loaded if loop.loaded else stored // loop.stored
    moves_as_much = (rounds * loop.loaded, rounds * loop.stored) == (loaded, stored)
    return rounds if moves_as_much and rounds <= loop.trips else 0


def _count_matching(counter: Counter[str], pattern: str) -> int:
    return sum(n for name, n in counter.items() if re.fullmatch(pattern, name))


def _disassemble(flag: str, path: str) -> str:
    """Return what cuobjdump prints of a cubin file with a flag."""
    return subprocess.run([DISASSEMBLER, flag, path], check=True, capture_output=True, text=True).stdout
