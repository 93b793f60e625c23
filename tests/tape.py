"""What a CUDA graph does with a step, on a CPU: records its operations with their memory, and replays them there.

Like a captured graph, a tape knows only operations on tensors: numbers of the host, and which memory is read, stay
as they were when it was recorded. Streams, other threads and the choice of algorithms have no counterpart here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from mptctl.training.graphed import Recording

Terms = dict[str, Tensor]
PACKAGE = str(Path(__file__).parents[1] / "mptctl")


class Op(NamedTuple):
    """An operation of a step.

    Attributes:
        func: of torch.
        args: positional and keyword arguments; tensors as views of the memory that they were in.
        out: tensors that it returned.
        line: of ours that called it.
        reads: its arguments, described so that they can be compared with those of another step.
    """

    func: Any
    args: tuple[Any, dict[str, Any]]
    out: list[Tensor]
    line: str
    reads: list[object]


class Tape(TorchDispatchMode):
    """Records the operations that are called in a ``with`` block; see `replay`, `restore` and `differences`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[Op] = []
        # By storage: the operation of the block that made it.
        self._born: dict[int, int] = {}
        # All bytes of each storage that is older than the block, and a copy of them from before.
        self._before: dict[int, tuple[Tensor, Tensor]] = {}
        self._random = torch.get_rng_state()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "profiler":  # marks of an optimizer's step, which compute nothing
            return func(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        reads = [self._describe(leaf) for leaf in leaves]
        # All of them, since not every operation declares what it writes to: batch normalisation does not.
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                self._keep_before(leaf)
        # As views, since weights are permuted between operations.
        seen = tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, (args, kwargs))
        out = func(*args, **kwargs)
        returned = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        given = {_storage(x) for x in leaves if isinstance(x, Tensor)}
        for tensor in returned:
            if _storage(tensor) not in given:
                self._born.setdefault(_storage(tensor), len(self.ops))
        self.ops.append(Op(func, seen, [x.detach() for x in returned], _our_line(), reads))
        return out

    def restore(self) -> None:
        """Undo what the block did to older memory, and to torch's random numbers: a capture computes nothing."""
        for whole, before in self._before.values():
            whole.copy_(before)
        torch.set_rng_state(self._random)

    @torch.no_grad()
    def replay(self) -> None:
        """Call the operations again, into the memory that they wrote to when they were recorded."""
        for op in self.ops:
            for tensor in op.out:
                if _storage(tensor) in self._born and tensor.is_floating_point():
                    tensor.fill_(float("nan"))  # nothing of the step before may be read
        for op in self.ops:
            args, kwargs = op.args
            again = [x for x in tree_leaves(op.func(*args, **kwargs)) if isinstance(x, Tensor)]
            for new, recorded in zip(again, op.out, strict=True):
                if _storage(new) != _storage(recorded):
                    recorded.copy_(new)

    def _describe(self, leaf: object) -> object:
        """What a graph would keep of an argument: a number, or a place in memory."""
        if not isinstance(leaf, Tensor):
            return leaf
        at = _storage(leaf)
        memory = ("made by", self._born[at]) if at in self._born else ("older", at)
        return (*memory, leaf.storage_offset(), tuple(leaf.shape), leaf.stride(), leaf.dtype)

    def _keep_before(self, tensor: Tensor) -> None:
        at = _storage(tensor)
        if at in self._born or at in self._before or tensor.device.type == "meta":
            return
        whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        self._before[at] = (whole, whole.clone())


def differences(one: Tape, other: Tape) -> list[str]:
    """What a graph of one step would get wrong of the other: operation, line, and arguments of both."""
    found = [
        f"{a.func} at {a.line}: {x} is {y} in the other step"
        for a, b in zip(one.ops, other.ops, strict=False)
        for x, y in zip(a.reads, b.reads, strict=False)
        if x != y
    ]
    if [op.func for op in one.ops] != [op.func for op in other.ops]:
        found.append(f"{len(one.ops)} operations are {len(other.ops)} others in the other step")
    return found


class TapeRecorder:
    """A `Recorder` that records steps on tapes.

    Attributes:
        recorded, taken: number of steps that were recorded, and taken without a recording.
    """

    def __init__(self) -> None:
        self.recorded = self.taken = 0

    def warm_up(self, step: Callable[[], Terms]) -> Terms:
        self.taken += 1
        return step()

    def record(self, step: Callable[[], Terms]) -> Recording:
        self.recorded += 1
        with Tape() as tape:
            terms = step()
        tape.restore()
        return Recording(terms, tape.replay, tape.ops.clear)


def _storage(tensor: Tensor) -> int:
    """Identifies the memory of a tensor for as long as any tensor is there that uses it."""
    return int(tensor.untyped_storage()._cdata)


def _our_line() -> str:
    """The innermost line of the package that is being executed."""
    frame = sys._getframe()
    while not frame.f_code.co_filename.startswith(PACKAGE):
        if frame.f_back is None:
            return "a backward pass"
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
