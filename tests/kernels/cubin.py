"""Compiles the kernels for GPUs that are not here, and reads from the machine code what they would cost."""

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
from mpt_kernels.types import LossSettings

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.int64: "*i64"}


class Cubin(NamedTuple):
    """What a compiled kernel takes: registers a thread, bytes of stack and local memory, its instructions."""

    registers: int
    stack: int
    local: int
    instructions: Counter[str]

    def count(self, pattern: str) -> int:
        return sum(n for name, n in self.instructions.items() if re.fullmatch(pattern, name))

    @property
    def spills(self) -> bool:
        """Whether any thread keeps something in local memory."""
        return self.stack > 0 or self.local > 0 or self.count(r"(LDL|STL)\b.*") > 0


def compile_kernel(
    kernel: Any,
    signature: dict[str, str],
    constants: dict[str, Any],
    options: dict[str, Any],
    capability: int,
) -> Cubin:
    """Compiles for compute capability `capability` with all pointers 16-byte aligned, and reads the result."""
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
        usage = _run("--dump-resource-usage", file.name)
        code = _run("--dump-sass", file.name)
    registers, stack, local = (
        int(re.search(rf"\b{word}:(\d+)", usage)[1])  # type: ignore[index]
        for word in ("REG", "STACK", "LOCAL")
    )
    # An address in a comment, perhaps a predicate, then the instruction.
    return Cubin(
        registers,
        stack,
        local,
        Counter(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ +)?([A-Z][\w.]*)", code, re.MULTILINE)),
    )


def compile_launch(
    logits: Tensor,
    old_logits: Tensor | None,
    ref_logits: Tensor | None,
    settings: LossSettings,
    capability: int,
    k_rows: Tensor | None = None,
) -> Cubin:
    """The row kernel that `mpt_loss` would launch on these tensors (meta tensors will do)."""
    target = torch.empty(logits.shape[0], dtype=torch.int64, device="meta")
    grad = triton_backend.empty_outputs(logits)[1]
    launch = triton_backend.plan(logits, target, old_logits, ref_logits, k_rows, grad, settings)
    tensors = {
        "z_ptr": logits,
        "y_ptr": target,
        "old_ptr": old_logits,
        "ref_ptr": ref_logits,
        "k_ptr": k_rows,
        "normalizer_ptr": torch.empty((), device="meta"),
        "scale_ptr": torch.empty((), device="meta"),
        "grad_ptr": grad,
        "rows_ptr": torch.empty((4, 1), device="meta"),
    }
    signature: dict[str, str] = {}
    constants: dict[str, Any] = dict(launch.constants)
    for name in launch.kernel.arg_names:
        if name in tensors and tensors[name] is not None:
            signature[name] = POINTERS[tensors[name].dtype]  # type: ignore[union-attr]
        elif name in tensors or name in constants:
            signature[name] = "constexpr"
            constants.setdefault(name, None)
        else:
            signature[name] = "i32" if name in ("n_rows", "ignore_index") else "fp32"
    return compile_kernel(launch.kernel, signature, constants, launch.options, capability)


def _run(flag: str, path: str) -> str:
    return subprocess.run(
        [TOOLS / "cuobjdump", flag, path], check=True, capture_output=True, text=True
    ).stdout
