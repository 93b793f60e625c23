"""Collective operations of a run's workers: gradients, sums, agreements, and the error when one is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mptctl.errors import MptctlError
from mptctl.machine.facts import world_size

# How long a worker waits in a collective operation before it gives up.
TIMEOUT = timedelta(minutes=10)
# How long workers wait for the main one to validate; a worker that has died is noticed before.
LONG_TIMEOUT = timedelta(days=7)
# After the last collective operation the group's thread frees tensors, and takes Python's lock to do so. A
# process that ends at that moment is aborted (torch 2.14 keeps the thread beyond the group's end).
SETTLE_SECONDS = 0.2


class ProcessGroup:
    """The processes of one run, as `torchrun` starts them; a single process is a run of one worker.

    Attributes:
        rank: number of this worker; worker 0 writes and reports.
        size: number of workers.

    Args:
        rank, size: as the attributes.
        patient: group of the same workers over gloo, in which they wait for `LONG_TIMEOUT`.
    """

    def __init__(self, rank: int = 0, size: int = 1, patient: dist.ProcessGroup | None = None) -> None:
        self.rank = rank
        self.size = size
        self._patient = patient
        self._wrapped: list[nn.parallel.DistributedDataParallel] = []

    @property
    def is_main(self) -> bool:
        """Tell whether this worker writes files and reports."""
        return self.rank == 0

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Wrap a model so that its backward pass averages gradients over the workers, if several."""
        if self.size == 1:
            return model
        devices = [device] if device.type == "cuda" else None
        wrapped = nn.parallel.DistributedDataParallel(model, device_ids=devices)
        self._wrapped.append(wrapped)
        return wrapped

    def release(self) -> None:
        """Take the group out of wrapped models: they train no more, and freeing them cannot deadlock.

        Python frees a wrapped model with its lock held. A model with the last reference to a gloo group waits
        for the group's thread, and the thread waits for Python's lock if it has just ended a collective.
        """
        for wrapped in self._wrapped:
            wrapped.logger = wrapped.reducer = wrapped.process_group = None  # type: ignore[assignment]
        self._wrapped.clear()
        self._patient = None

    def sync_gradients(self, student: nn.Module, now: bool) -> AbstractContextManager[None]:
        """Return the context of a forward and backward pass of a wrapped model.

        Args:
            student: as `wrap` returned it.
            now: average the gradients over the workers; False: only add them to this worker's own.
        """
        if self.size == 1 or now:
            return nullcontext()
        without_sync: AbstractContextManager[None] = student.no_sync()  # type: ignore[operator]
        return without_sync

    def any(self, flag: bool, device: torch.device) -> bool:
        """Tell whether the flag is set on any worker; waits until all workers have called this."""
        return flag if self.size == 1 else bool(self.maximum(torch.tensor(float(flag), device=device)) > 0)

    def sum(self, value: Tensor) -> Tensor:
        """Sum a tensor over the workers in place, and return it."""
        return self._reduce(value, dist.ReduceOp.SUM)

    def maximum(self, value: Tensor) -> Tensor:
        """Take the element-wise maximum of a tensor over the workers in place, and return it."""
        return self._reduce(value, dist.ReduceOp.MAX)

    def _reduce(self, value: Tensor, operation: dist.ReduceOp.RedOpType) -> Tensor:
        """Reduce a tensor over the workers in place, and return it; a single worker changes nothing."""
        if self.size > 1:
            with self.checked():
                dist.all_reduce(value, op=operation)
        return value

    def wait(self, *, long: bool = False) -> None:
        """Wait until all workers have called this; `long`: one of them may do something that takes hours."""
        if self.size > 1:
            with self.checked():
                dist.barrier(self._patient if long else None)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Turn torch's communication errors in the block into one plain error.

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
    """Join the workers that `torchrun` started, by NCCL on GPUs and gloo on CPUs; leave them at the end.

    A process that `torchrun` did not start gets a group of one worker.
    """
    size = world_size()
    if size == 1:
        yield ProcessGroup()
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    patient = cast("dist.ProcessGroup", dist.new_group(backend="gloo", timeout=LONG_TIMEOUT))
    group = ProcessGroup(dist.get_rank(), size, patient)
    try:
        yield group
    finally:
        group.release()
        time.sleep(SETTLE_SECONDS)
        dist.destroy_process_group()


def convert_sync_batchnorm(model: nn.Module) -> nn.Module:
    """Make every batch normalisation of a model use the statistics of all workers' pictures in training.

    Names and values of the model's state stay, so checkpoints fit the plain model too.

    Args:
        model: on its GPU; changed in place.

    Returns:
        The model; a new module if the model is itself a batch normalisation.
    """
    if any(isinstance(module, _BatchNorm) and hasattr(module, "act") for module in model.modules()):
        # timm's conversion keeps the activation that is part of its batch norms; torch's loses it.
        from timm.layers import convert_sync_batchnorm as convert_timm

        timms: nn.Module = convert_timm(model)
        return timms
    torchs: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return torchs


def _is_communication(error: RuntimeError) -> bool:
    # gloo raises plain RuntimeErrors; their messages begin with the path of gloo's source file.
    return isinstance(error, dist.DistError) or "/gloo/" in str(error)
