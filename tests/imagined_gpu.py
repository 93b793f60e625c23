"""A GPU that is only imagined: tensors have sizes there and no contents, and what would make the host wait is an error.

Torch's meta device stands for it, since autograd asks an imagined CUDA device for its context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mpt_kernels import loss

GPU = torch.device("meta")
# Operators whose result the host has to look at.
_LOOKS = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal.", "_unique", "masked_select")


class CrossingError(Exception):
    """An operator moves something between host and device, or has the host look at what is there."""


class Watch(TorchDispatchMode):
    """Counts the operators that launch something on the GPU, and refuses those for which the host waits."""

    def __init__(self) -> None:
        super().__init__()
        self.launched: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).removeprefix("aten.")
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        # Before it is called: imagined tensors have nothing to look at, and nothing to take along.
        from_gpu = any(x.device.type == GPU.type for x in given)
        if from_gpu and (name.startswith(_LOOKS) or str((kwargs or {}).get("device", GPU)) == "cpu"):
            raise CrossingError(f"{name} makes the host wait for the device")
        out = func(*args, **(kwargs or {}))
        tensors = given + [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        on_gpu = [x for x in tensors if x.device.type == GPU.type]
        # A number without dimensions goes into the launch of a kernel; copied by itself, it crosses.
        crosses = name.startswith(("_to_copy", "copy_", "_foreach_copy"))
        if on_gpu and any(x.device.type == "cpu" and (x.dim() or crosses) for x in tensors):
            raise CrossingError(f"{name} goes from host to device or back")
        if on_gpu and not _is_view(func) and not name.startswith("empty"):
            self.launched[name] += 1
        return out


def _is_view(func: Any) -> bool:
    """Whether the operator only looks at memory in another way, and launches nothing."""
    returns = func._schema.returns
    return func.is_view or (
        bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    )


class _NoUpdates(TorchDispatchMode):
    """Leaves weights as they are: fused optimizers are there for real devices only."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if str(func).startswith("aten._fused_") else func(*args, **(kwargs or {}))


@contextmanager
def imagined_gpu() -> Iterator[None]:
    """Within this block `GPU` is one: for fused optimizers, autocast and the operator of the loss."""
    with ExitStack() as stack:
        kinds = ["cuda", "cpu", GPU.type]
        for place in ("torch.optim.optimizer", "torch.optim.sgd", "torch.optim.adam"):
            stack.enter_context(
                patch(f"{place}._get_fused_kernels_supported_devices", lambda: kinds, create=True)
            )
        stack.enter_context(patch("torch.autocast", lambda *_, **__: nullcontext()))
        stack.enter_context(patch.object(loss, "backend_for", lambda *_: "triton"))
        stack.enter_context(_NoUpdates())
        yield
