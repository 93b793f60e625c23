"""Facts about the machine and process: cores, memory, packages, versions, commit, and rank among workers."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from pydantic import Field

from mptctl.errors import UsageError
from mptctl.files import Model
from mptctl.files.control_groups import SYSTEM, cpu_quota, memory_limit


class Machine(Model):
    """Hardware and versions of a machine, recorded with every measurement."""

    cpu: str = Field(description="model of the processor")
    cores: int = Field(description="cores that this process may use")
    load: float = Field(description="load average of the last minute when the measurement began")
    memory_gb: float = Field(description="memory that may be used, in gigabytes")
    gpu: str | None = Field(description="the first CUDA device; null without one")
    python: str = Field(description="version of Python")
    torch: str | None = Field(description="version of torch; null if not installed")
    torchvision: str | None = Field(description="version of torchvision; null if not installed")
    dali: str | None = Field(description="version of DALI; null if not installed")
    triton: str | None = Field(description="version of Triton; null if not installed")


def this_machine() -> Machine:
    """Describe the machine of this process; imports torch if installed."""
    gpu = torch_version = None
    if has_package("torch"):
        import torch  # takes seconds; other functions here need no torch

        torch_version = torch.__version__
        gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    return Machine(
        cpu=cpu_name(),
        cores=usable_cores(),
        load=round(os.getloadavg()[0], 2),
        memory_gb=round(usable_memory() / 1e9, 1),
        gpu=gpu,
        python=platform.python_version(),
        torch=torch_version,
        torchvision=version_of("torchvision"),
        dali=version_of("nvidia-dali-cuda130"),
        triton=version_of("triton"),
    )


def cpu_name() -> str:
    """Name of the processor, with family and model if Linux tells them; else the architecture.

    A virtual machine's name alone may not identify the processor.
    """
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return platform.machine()
    parts = (line.partition(":") for line in first.splitlines())
    facts = {name.strip(): value.strip() for name, _, value in parts}
    if "model name" not in facts:
        return platform.machine()
    if not {"cpu family", "model"} <= facts.keys():
        return facts["model name"]
    return f"{facts['model name']} (family {facts['cpu family']}, model {facts['model']})"


def usable_cores(system: Path = SYSTEM) -> int:
    """Number of cores that this process may use: those it may run on, limited by a container's quota.

    A quota is rounded down, at least to 1: a thread on a part of a core would make all others wait.

    Args:
        system: root of the file system.
    """
    # macOS has no sched_getaffinity.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota(system)
    return cores if quota is None else max(1, min(cores, int(quota)))


def usable_memory(system: Path = SYSTEM) -> int:
    """Bytes of memory that this process may use: the machine's, or its container's limit if that is less.

    Args:
        system: root of the file system.
    """
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(physical, memory_limit(system) or physical)


def has_package(module: str) -> bool:
    """Tell whether a module, such as ``triton`` or ``nvidia.dali``, is installed; do not import it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the module's package is not installed
        return False


def require_extra(module: str, extra: str, what: str) -> None:
    """Raise UsageError if a module is not installed.

    Args:
        module: name for Python's import.
        extra: the extra of mptctl that installs the module.
        what: what needs the module, for the message.
    """
    if not has_package(module):
        raise UsageError(f"{what}: needs {module}, which is not installed; pip install 'mptctl[{extra}]'")


def version_of(package: str) -> str | None:
    """Version of an installed package, by its name on PyPI; None if not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def rank() -> int:
    """Number of this process among the workers that `torchrun` started, from 0; 0 without `torchrun`."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """Number of this process among `torchrun`'s workers on this machine, from 0; 0 without `torchrun`."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def world_size() -> int:
    """Number of workers that `torchrun` started on all machines; 1 without `torchrun`."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute, as far as they are installed."""
    packages = (
        "mptctl",
        "torch",
        "torchvision",
        "torchcodec",
        "nvidia-dali-cuda130",
        "triton",
        "numpy",
        "ray",
    )
    installed = {package: version_of(package) for package in packages}
    return {"python": platform.python_version()} | {k: v for k, v in installed.items() if v is not None}


@cache
def git_commit(folder: Path = Path(__file__).parent) -> str | None:
    """Commit of a folder's git checkout, with ``-dirty`` if files were changed; None without git or checkout.

    Args:
        folder: a folder in the checkout; default: that of this code.
    """
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
