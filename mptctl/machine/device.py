"""Chooses the device of a run, moves models to it, and keeps freed memory for later steps."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from mptctl.errors import UsageError
from mptctl.machine.facts import local_rank, usable_cores

Model = TypeVar("Model", bound=nn.Module)
Precision = Literal["fp32", "bf16"]
# Parameters of mallopt, from glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
# Values of options in bytes, the preferred one first. While memory is kept, blocks of up to 1 GB come from
# the heap, which does not shrink and grows by 64 MB at a time. Some versions of glibc allow only 32 MB
# (DEFAULT_MMAP_THRESHOLD_MAX).
_KEEP = {_MMAP_THRESHOLD: (2**30, 2**25), _TRIM_THRESHOLD: (2**31 - 1,), _TOP_PAD: (2**26,)}
# Values afterwards: those that glibc itself sets once a program has freed a block of 32 MB.
_GIVE_BACK = {_MMAP_THRESHOLD: (2**25,), _TRIM_THRESHOLD: (2**26,), _TOP_PAD: (2**17,)}

# `with keep_freed_memory()` blocks that are open now, in all threads.
_open: list[object] = []
_lock = threading.Lock()


def choose_device(name: str) -> torch.device:
    """Return the device that a recipe names, and prepare torch for it.

    Torch's threads are limited to the usable cores, unless ``OMP_NUM_THREADS`` is set. For a GPU the
    environment variable CUBLAS_WORKSPACE_CONFIG is set.

    Args:
        name: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. ``auto`` is a GPU if there is one. ``cuda`` is the
            GPU with this worker's number.

    Raises:
        UsageError: the name is no device, or there is no such device.
    """
    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > usable_cores():
        torch.set_num_threads(usable_cores())
    kind = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        device = torch.device(kind)
    except RuntimeError:
        raise UsageError(f"runtime.device {name}: unknown; use auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"runtime.device {name}: not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cpu":
        return device
    # With these workspaces, matrix products of cuBLAS are repeatable. Torch reads the variable only at a
    # process's first product on a GPU, so it is set for every run: a deterministic one may follow. On sm_90
    # the size is 32 MiB, torch's own default.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if device.index is None:
        device = torch.device("cuda", local_rank())
    if device.index >= torch.cuda.device_count():
        raise UsageError(f"runtime.device {name}: {device} is not there; mptctl doctor lists what is usable")
    return device


def move_to_device(model: Model, device: torch.device, *, channels_last: bool) -> Model:
    """Move a model to a device, in place, with channels last in memory or not; return the model."""
    model.to(device)
    if channels_last:
        model.to(memory_format=torch.channels_last)
    return model


def copy_to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the CPU on a device, without waiting for the copy; on a CPU the tensor itself."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """A context for forward passes on a device: "bf16" uses autocast to bfloat16, "fp32" changes nothing."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep freed memory in the process during the ``with`` block; return it to the system afterwards.

    Otherwise glibc returns large blocks when they are freed, and the system fills new ones with zeros, page
    by page: 10,000 page faults in a step of a ResNet-18 on 128 pictures of 32 pixels. Peak memory does not
    change. Blocks may be nested and in several threads: the end of the last one returns the memory.
    Allocators other than glibc's are left as they are.
    """
    block = object()
    with _lock:
        _open.append(block)
        if len(_open) == 1:
            _set_options(_KEEP)
    try:
        yield
    finally:
        with _lock:
            _open.remove(block)
            if not _open:
                _set_options(_GIVE_BACK)
                trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
                if trim is not None:
                    trim(ctypes.c_size_t(0))


def _set_options(options: Mapping[int, Sequence[int]]) -> None:
    """Set each option of glibc's malloc to the first of its values that glibc accepts."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return
    for option, values in options.items():
        for value in values:
            if set_option(option, value):  # glibc has accepted it
                break
