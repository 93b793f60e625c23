"""Chooses the device of a run, and moves models to it."""

from __future__ import annotations

import os
from typing import Literal, TypeVar

import torch
from torch import nn

from mptctl.errors import UsageError
from mptctl.machine.facts import local_rank, usable_cores

Model = TypeVar("Model", bound=nn.Module)
Precision = Literal["fp32", "bf16"]


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


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """A context for forward passes on a device: "bf16" uses autocast to bfloat16, "fp32" changes nothing."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")
