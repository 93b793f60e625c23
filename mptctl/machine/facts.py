"""Facts about the machine: cores, packages, versions, and the place of this process among workers."""

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
    """Hardware and versions that stand beside every measured number."""

    cpu: str = Field(description="model of the processor")
    cores: int = Field(description="cores that this process may use")
    load: float = Field(description="load average of the last minute when the measurement began")
    memory_gb: float = Field(description="memory that may be used, in gigabytes")
    gpu: str | None = Field(description="the first CUDA device; null where there is none")
    python: str = Field(description="version of Python")
    torch: str | None = Field(description="version of torch; null where it is not installed")
    torchvision: str | None = Field(description="version of torchvision")
    dali: str | None = Field(description="version of DALI; null where it is not installed")
    triton: str | None = Field(description="version of Triton; null where it is not installed")


def this_machine() -> Machine:
    """Look at the machine that this process runs on."""
    gpu = torch_version = None
    if has_package("torch"):
        import torch  # here, since it takes seconds, and others ask for cores and versions alone

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
    """The processor, with family and model where the system names them; a virtual machine's name may not."""
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
    """Cores that this process may run on, and a container's quota lets it use; at least one.

    Of a quota whole cores count: a thread beyond them makes all others wait.

    Args:
        system: where the file system of the machine begins.
    """
    # macOS does not say which cores a process may run on.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota(system)
    return cores if quota is None else max(1, min(cores, int(quota)))


def usable_memory(system: Path = SYSTEM) -> int:
    """Bytes of memory that this process may take: the machine's, or its container's where that is less.

    Args:
        system: where the file system of the machine begins.
    """
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(pages, memory_limit(system) or pages)


def has_package(module: str) -> bool:
    """Tell whether a module is installed, such as ``triton`` or ``nvidia.dali``; it is not imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in is not there
        return False


def require_extra(module: str, extra: str, what: str) -> None:
    """Raise UsageError where a module of an extra is not installed.

    Args:
        module: its name in Python.
        extra: of mptctl, which installs it.
        what: what needs it.
    """
    if not has_package(module):
        raise UsageError(f"{what}: needs {module}, which is not installed; pip install 'mptctl[{extra}]'")


def version_of(package: str) -> str | None:
    """Version of an installed package by its name on PyPI; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def rank() -> int:
    """Number of this process among the workers that `torchrun` started, from 0; 0 where it is alone."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """Number of this process among the workers on this machine, from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def world_size() -> int:
    """Number of workers that `torchrun` started on all machines; 1 where it started none."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute."""
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
    found = {package: version_of(package) for package in packages}
    return {"python": platform.python_version()} | {name: v for name, v in found.items() if v is not None}


@cache
def git_commit(folder: Path = Path(__file__).parent) -> str | None:
    """Commit of a folder, by default this code's, with ``-dirty`` where files differ; None outside one."""
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
