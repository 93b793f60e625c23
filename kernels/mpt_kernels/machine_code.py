"""Compiles the row kernels for any GPU, without one, and counts the instructions of a warp."""

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
from mpt_kernels.triton_backend import Launch, Loop
from mpt_kernels.types import LossSettings

# Comes with Triton's wheel for NVIDIA.
DISASSEMBLER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
POINTERS = {
    torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16",
    torch.int64: "*i64", torch.int32: "*i32",
}  # fmt: skip

# An address in a comment, perhaps a predicate, the instruction, its operands.
_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+ +)?([A-Z][\w.]*)([^;]*)", re.MULTILINE)


class MachineCode(NamedTuple):
    """A compiled kernel.

    Attributes:
        registers: of a thread.
        stack, local: bytes of a thread.
        instructions: number of each in the code, by name.
        executed: number of each that a warp executes: those in a loop count once a round.
    """

    registers: int
    stack: int
    local: int
    instructions: Counter[str]
    executed: Counter[str]

    def count(self, pattern: str) -> int:
        return _matching(self.instructions, pattern)

    def count_executed(self, pattern: str) -> int:
        return _matching(self.executed, pattern)

    @property
    def spills(self) -> bool:
        """Tell whether a thread keeps something in local memory."""
        return self.stack > 0 or self.local > 0 or self.count(r"(LDL|STL)\b.*") > 0


class Instruction(NamedTuple):
    """A line of a disassembly.

    Attributes:
        address: in the code.
        conditional: a predicate stands before it.
        name: with its suffixes, such as ``LDG.E.128``.
        target: address that a branch goes to; None of other instructions.
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
) -> tuple[Launch, MachineCode]:
    """Compiles the row kernel that `mpt_loss` would launch on these tensors; meta tensors will do.

    Args:
        logits, old_logits, ref_logits, settings, k_rows, row_weight: as for `triton_backend.plan`.
        capability: compute capability of the GPU, 90 for 9.0.

    Raises:
        FileNotFoundError: Triton came without its disassembler.
        ValueError: the loops of the machine code are not those of the kernel.
    """
    target = torch.empty(logits.shape[0], dtype=torch.int64, device="meta")
    values, grad, counts = triton_backend.empty_outputs(logits)
    launch = triton_backend.plan(logits, target, old_logits, ref_logits, k_rows, grad, settings, row_weight)
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
        "rows_ptr": torch.empty((4, 1), device="meta"),
        "arrived_ptr": torch.empty(1, dtype=torch.int32, device="meta") if launch.sums_rows else None,
        "values_ptr": values,
        "counts_ptr": counts,
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
    """Compiles for compute capability `capability` with all pointers 16-byte aligned, and reads the result.

    `loops` are the kernel's, in the order in which they stand.
    """
    names = list(signature)
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
    """The instructions of one kernel, as `cuobjdump --dump-sass` prints them."""
    lines = []
    for address, predicate, name, operands in _LINE.findall(disassembly):
        goes_to = re.search(r"\b0x([0-9a-f]+)\s*$", operands) if name.startswith("BRA") else None
        conditional = bool(predicate) or name == "BRA.DIV" or re.search(r"\bU?P\d", operands) is not None
        lines.append(
            Instruction(int(address, 16), conditional, name, int(goes_to[1], 16) if goes_to else None)
        )
    return lines


def count_executed(code: list[Instruction], loops: tuple[Loop, ...]) -> Counter[str]:
    """Instructions that a warp issues from the first one to the end: on the way through, a branch back is a
    loop, a branch forward under a condition is not taken, and one without is. So what a condition may skip is
    counted, unless one of the kernel's rare loops lies in it.

    The assembler may unroll a loop: its body then loads and stores a multiple of what one time round does,
    and goes round that much less often. One that is unrolled to its end has no branch.

    Args:
        code: of `read_instructions`.
        loops: the kernel's, in the order in which they begin.

    Raises:
        ValueError: a loop of the code is none of the kernel's.
    """
    # A branch back from behind the kernel's end is that of a block which stands there, and no loop.
    end_of_code = max(line.address for line in code if line.name == "EXIT" and not line.conditional)
    bodies = sorted(
        (line.target, line.address)
        for line in code
        if line.target is not None and line.target < line.address < end_of_code
    )
    rounds, rest = [], list(loops)
    for begin, end in bodies:
        body = [line.name for line in code if begin <= line.address <= end]
        loaded, stored = (
            sum(map(access_bytes, filter(re.compile(word).match, body))) for word in ("LDG", "STG")
        )
        while rest and not _unrolled(rest[0], loaded, stored):
            rest.pop(0)
        if not rest:
            raise ValueError(f"a loop that loads {loaded} bytes and stores {stored} is none of the kernel's")
        loop = rest.pop(0)
        rounds.append(0 if loop.rare else loop.trips // _unrolled(loop, loaded, stored))
    rare = [begin for (begin, _), times in zip(bodies, rounds, strict=True) if not times]
    place = {line.address: i for i, line in enumerate(code)}
    executed: Counter[str] = Counter()
    i = 0
    while i < len(code):
        line = code[i]
        times = 1
        for (begin, end), trip in zip(bodies, rounds, strict=True):
            times *= trip if begin <= line.address <= end else 1
        executed[line.name] += times
        if line.name == "EXIT" and not line.conditional:
            break
        i += 1
        if line.target is not None and line.target > line.address:
            skips_rare = any(line.address < begin < line.target for begin in rare)
            i = place[line.target] if skips_rare or not line.conditional else i
    return executed


def access_bytes(name: str) -> int:
    """Bytes that a load or store of this name moves for one thread."""
    width = re.search(r"\.[US]?(8|16|64|128|256)\b", name)
    return int(width[1]) // 8 if width else 4


def _unrolled(loop: Loop, loaded: int, stored: int) -> int:
    """Rounds of the loop in a body that moves so many bytes; 0 where it is not that loop's."""
    times = loaded // loop.loaded if loop.loaded else stored // loop.stored
    return (
        times if (times * loop.loaded, times * loop.stored) == (loaded, stored) and times <= loop.trips else 0
    )


def _matching(counter: Counter[str], pattern: str) -> int:
    return sum(n for name, n in counter.items() if re.fullmatch(pattern, name))


def _disassemble(flag: str, path: str) -> str:
    return subprocess.run([DISASSEMBLER, flag, path], check=True, capture_output=True, text=True).stdout
