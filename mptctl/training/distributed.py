"""Several workers of one run: their gradients, what they agree on, and the error when one is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mptctl.errors import MptctlError
from mptctl.machine.facts import world_size

# A worker waits so long for another one before it gives up; a validation pass of one worker lies in between.
TIMEOUT = timedelta(minutes=10)
# After its last collective a group's thread gives back tensors, for which it takes Python's lock; a process
# that ends at that moment is aborted (torch 2.14, which keeps the thread beyond the group's end).
SETTLE_SECONDS = 0.2


class ProcessGroup:
    """The processes of one run, as `torchrun` starts them; a single process is a run of one worker.

    Attributes:
        rank: of this worker; 0 writes and reports.
        size: number of workers.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size
        self._wrapped: list[nn.parallel.DistributedDataParallel] = []

    @property
    def is_main(self) -> bool:
        """Tell whether this worker writes files and reports."""
        return self.rank == 0

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Wrap a model so that its backward pass averages gradients over the workers."""
        if self.size == 1:
            return model
        devices = [device] if device.type == "cuda" else None
        wrapped = nn.parallel.DistributedDataParallel(model, device_ids=devices)
        self._wrapped.append(wrapped)
        return wrapped

    def release(self) -> None:
        """Take the group out of the wrapped models, which cannot be trained any more, to prevent a deadlock.

        A wrapped model is freed with Python's lock held. If it holds the last reference to a gloo group, it
        waits for the group's thread; that thread waits for the lock if it has just ended a collective.
        """
        for wrapped in self._wrapped:
            wrapped.logger = wrapped.reducer = wrapped.process_group = None  # type: ignore[assignment]
        self._wrapped.clear()

    def sync_gradients(self, student: nn.Module, now: bool) -> AbstractContextManager[None]:
        """A context for a forward and backward pass: gradients are averaged ``now``, or only added up."""
        if self.size == 1 or now:
            return nullcontext()
        # Of DistributedDataParallel.
        apart: AbstractContextManager[None] = student.no_sync()  # type: ignore[operator]
        return apart

    def any(self, flag: bool, device: torch.device) -> bool:
        """Tell whether the flag is set on any worker; all workers must call this."""
        return flag if self.size == 1 else bool(self.maximum(torch.tensor(float(flag), device=device)) > 0)

    def sum(self, value: Tensor) -> Tensor:
        """Sum over the workers, in place."""
        return self._reduce(value, dist.ReduceOp.SUM)

    def maximum(self, value: Tensor) -> Tensor:
        """Maximum over the workers, in place."""
        return self._reduce(value, dist.ReduceOp.MAX)

    def _reduce(self, value: Tensor, operation: dist.ReduceOp.RedOpType) -> Tensor:
        if self.size > 1:
            with self.checked():
                dist.all_reduce(value, op=operation)
        return value

    def wait(self) -> None:
        """Wait until all workers are here."""
        if self.size > 1:
            with self.checked():
                dist.barrier()

    @contextmanager
    def checked(self) -> Iterator[None]:
        """A context for what needs the other workers, whose errors become one plain error.

        Raises:
            MptctlError: another worker died or did not answer in time.
        """
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not _is_communication(error):
                raise
            raise MptctlError(
                f"worker {self.rank} of {self.size}: another worker is gone; look at its message, "
                "then start all of them again with --resume"
            ) from error


@contextmanager
def workers(device: torch.device) -> Iterator[ProcessGroup]:
    """Join the workers that `torchrun` started, over NCCL on GPUs and gloo elsewhere; alone otherwise."""
    size = world_size()
    if size == 1:
        yield ProcessGroup()
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    group = ProcessGroup(dist.get_rank(), size)
    try:
        yield group
    finally:
        group.release()
        time.sleep(SETTLE_SECONDS)
        dist.destroy_process_group()


def _is_communication(error: RuntimeError) -> bool:
    # gloo raises plain RuntimeErrors; each begins with the file of gloo that it comes from.
    return isinstance(error, dist.DistError) or "/gloo/" in str(error)
