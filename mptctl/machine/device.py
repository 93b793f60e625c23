"""The device that a run computes on, how torch is set up for it, and memory that stays with the program."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, TypeVar

import torch
from torch import nn

from mptctl.errors import UsageError
from mptctl.machine.facts import local_rank, usable_cores

Model = TypeVar("Model", bound=nn.Module)
Precision = Literal["fp32", "bf16"]
# Parameters of mallopt, from glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
# Bytes. Kept: blocks up to a gigabyte come from the heap, which does not shrink and grows by 64 MB at a time.
# A glibc that takes no larger one refuses the gigabyte and gets the 32 MB, its DEFAULT_MMAP_THRESHOLD_MAX.
_KEEP = {_MMAP_THRESHOLD: (2**30, 2**25), _TRIM_THRESHOLD: (2**31 - 1,), _TOP_PAD: (2**26,)}
# Afterwards what glibc itself comes to once a program has freed a block of those 32 MB.
_GIVE_BACK = {_MMAP_THRESHOLD: (2**25,), _TRIM_THRESHOLD: (2**26,), _TOP_PAD: (2**17,)}

# Blocks that are open, in all threads.
_open: list[object] = []
_lock = threading.Lock()


def choose_device(name: str) -> torch.device:
    """The device that a recipe names; ``auto`` is a GPU where there is one. Each worker takes its own GPU.

    In a container torch gets as many threads as its quota has cores, unless ``OMP_NUM_THREADS`` says how
    many.

    Raises:
        UsageError: it is not a device, or not there.
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
    # Workspaces with which a matrix product of cuBLAS repeats itself. Torch reads this once, at a process's
    # first product on a GPU: too late for a deterministic run after another one. On sm_90 these are 32 MiB,
    # as torch takes there by itself.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if device.index is None:
        device = torch.device("cuda", local_rank())
    if device.index >= torch.cuda.device_count():
        raise UsageError(f"runtime.device {name}: {device} is not there; mptctl doctor lists what is usable")
    return device


def place(model: Model, device: torch.device, *, channels_last: bool) -> Model:
    """Move a model to a device, with the channels of convolutions last in memory or not; returns it."""
    model.to(device)
    if channels_last:
        model.to(memory_format=torch.channels_last)
    return model


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """A context in which forward passes on a device compute with a precision of the recipe."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory in the block, and give it back to the system at the end of the outermost one.

    By itself glibc returns large blocks when they are freed, and the system hands out new ones page by page,
    each filled with zeros: 10,000 page faults in a step of a ResNet-18 on 128 pictures of 32 pixels. The most
    memory that is held at a time stays the same. With another allocator than glibc's nothing happens.
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
    """Set each option to the first of its values that is taken."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        for option, values in options.items():
            any(set_option(option, value) for value in values)
