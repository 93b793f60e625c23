"""Where a run computes, and how torch is set up for it."""

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
