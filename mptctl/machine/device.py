"""Where a run computes, and how torch is set up for it."""

from __future__ import annotations

import torch

from mptctl.errors import UsageError
from mptctl.machine.facts import local_rank


def choose_device(name: str) -> torch.device:
    """The device that a recipe names; ``auto`` is a GPU where there is one. Of several workers each takes its own GPU.

    Raises:
        UsageError: it is not a device, or not there.
    """
    kind = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        device = torch.device(kind)
    except RuntimeError:
        raise UsageError(f"runtime.device {name}: unknown; use auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"runtime.device {name}: not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cpu":
        return device
    if device.index is None:
        device = torch.device("cuda", local_rank())
    if device.index >= torch.cuda.device_count():
        raise UsageError(f"runtime.device {name}: {device} is not there; mptctl doctor lists what is usable")
    return device
