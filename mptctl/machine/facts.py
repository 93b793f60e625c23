"""What machine a number was measured on."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field


class Machine(BaseModel):
    """Hardware and versions that stand beside every measured number."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: str = Field(description="model of the processor")
    cores: int = Field(description="cores that this process may use")
    load: float = Field(description="load average of the last minute when the measurement began")
    memory_gb: float = Field(description="memory, in gigabytes")
    gpu: str | None = Field(description="the first CUDA device; null where there is none")
    python: str = Field(description="version of Python")
    torch: str = Field(description="version of torch")
    torchvision: str | None = Field(description="version of torchvision")
    dali: str | None = Field(description="version of DALI; null where it is not installed")
    triton: str | None = Field(description="version of Triton; null where it is not installed")


def this_machine() -> Machine:
    """Look at the machine that this process runs on."""

    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        load=round(os.getloadavg()[0], 2),
        memory_gb=round(pages / 1e9, 1),
        gpu=torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        python=platform.python_version(),
        torch=torch.__version__,
        torchvision=_version("torchvision"),
        dali=_version("nvidia-dali-cuda130"),
        triton=_version("triton"),
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def has_nvidia() -> bool:
    return importlib.util.find_spec("nvidia") is not None


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute."""
    found = {"python": platform.python_version()}
    for package in ("mptctl", "torch", "torchvision", "nvidia-dali-cuda130", "triton", "numpy", "ray"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


@cache
def git_commit() -> str | None:
    """Commit of the checkout that this code runs from, with ``-dirty`` where files differ; None outside one."""
    folder = Path(__file__).parent
    try:
        out = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return out.stdout.strip() or None
