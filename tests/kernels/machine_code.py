"""Compiles the row kernels for any GPU, without a GPU, and counts the instructions of their machine code."""

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
from mpt_kernels.triton_backend import Launch
from mpt_kernels.types import LossSettings

# Part of Triton's wheel for NVIDIA.
DISASSEMBLER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
POINTERS = {
    torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16",
    torch.int64: "*i64", torch.int32: "*i32",
}  # fmt: skip

# An instruction's name in a line of a disassembly, after an address in a comment and sometimes a predicate.
_LINE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ +)?([A-Z][\w.]*)", re.MULTILINE)


class MachineCode(NamedTuple):
    """A compiled kernel.

    Attributes:
        registers: number of registers of a thread.
        stack, local: bytes of stack and of local memory of a thread.
        instructions: number of instructions in the code, by name.
    """

    registers: int
    stack: int
    local: int
    instructions: Counter[str]

    def count(self, pattern: str) -> int:
        """Count the instructions in the code whose whole name matches a regular expression."""
        return sum(n for name, n in self.instructions.items() if re.fullmatch(pattern, name))

    @property
    def spills(self) -> bool:
        """Tell whether a thread keeps values in local memory for lack of registers."""
        return self.stack > 0 or self.local > 0 or self.count(r"(LDL|STL)\b.*") > 0


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
    arguments = list(signature)
    # Triton's attributes of each pointer, by its place among the arguments: all are 16-byte aligned.
    attrs = {
        (arguments.index(name),): [["tt.divisibility", 16]]
        for name, kind in signature.items()
        if kind.startswith("*")
    }
    source = ASTSource(launch.kernel, signature, constants, attrs)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=launch.options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = _disassemble("--dump-resource-usage", file.name)
        names = _LINE.findall(_disassemble("--dump-sass", file.name))
    used = dict(re.findall(r"\b(\w+):(\d+)", usage))
    registers, stack, local = (int(used[word]) for word in ("REG", "STACK", "LOCAL"))
    return launch, MachineCode(registers, stack, local, Counter(names))


def _disassemble(flag: str, path: str) -> str:
    """Return what cuobjdump prints of a cubin file with a flag."""
    return subprocess.run([DISASSEMBLER, flag, path], check=True, capture_output=True, text=True).stdout
