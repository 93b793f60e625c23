"""Checks which packages and devices are usable on this machine, with advice about the others."""

from __future__ import annotations

import platform
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from mptctl.errors import one_line
from mptctl.files import Model
from mptctl.machine.facts import has_package, usable_cores, version_of
from mptctl.machine.jpeg_decoder import INSTALL, jpeg_decoder

State = Literal["ok", "missing", "unusable"]
# Packages that compare predictions and write reports (requirements-gate.txt has what they need in turn).
COMPARES = ("numpy", "scipy", "pyarrow", "duckdb", "matplotlib", "jinja2")
# Free disk space, in bytes, below which a run with a few checkpoints may not fit.
MIN_FREE = 10**9


class Check(Model):
    """The result of one check."""

    name: str = Field(description="the package, device or resource that was checked")
    state: State = Field(description="ok, missing or unusable")
    found: str = Field(description="version, or the fault")
    advice: str | None = Field(None, description="remedy if the state is not ok; else null")


class DoctorReport(Model):
    """All checks."""

    checks: list[Check] = Field(description="one for each package, device and resource")


class _Fault(Exception):
    """A package, device or resource that cannot be used: its state, what was found, and advice."""

    def __init__(self, state: State, found: str, advice: str) -> None:
        self.state = state
        self.found = found
        self.advice = advice


def examine(run_root: Path) -> list[Check]:
    """Check everything that the commands use; DALI, torchcodec and the GPU are tried, not only looked up.

    Args:
        run_root: folder whose disk is checked; it need not exist.
    """
    of_torch = "pip install torchvision, of the release that fits torch"
    found: dict[str, Callable[[], str]] = {
        "Python": platform.python_version,
        "comparisons": _find_comparisons,
        "torch": _find_torch,
        "torchvision": partial(_find_package, "torchvision", of_torch),
        "JPEG": _find_jpeg,
        "GPU": _find_gpu,
        "Triton": _find_triton,
        "DALI": _find_dali,
        "Ray Tune": partial(_find_package, "ray", "pip install 'ray[tune]'; tune needs it"),
        "cores": lambda: str(usable_cores()),
        "storage": partial(_find_storage, run_root),
    }
    return [_check(name, find) for name, find in found.items()]


def _check(name: str, find: Callable[[], str]) -> Check:
    """Return the check of what a function finds, or of the fault that it raises."""
    try:
        return Check(name=name, state="ok", found=find())
    except _Fault as fault:
        return Check(name=name, state=fault.state, found=fault.found, advice=fault.advice)


def _find_package(package: str, advice: str) -> str:
    """Return the version of a package, by its name on PyPI; _Fault with advice if it is not installed."""
    version = version_of(package)
    if version is None:
        raise _Fault("missing", "none", advice)
    return version


def _find_comparisons() -> str:
    """Return the versions of what compares predictions, which is all that a gate needs."""
    versions = {package: version_of(package) for package in COMPARES}
    if missing := [package for package, version in versions.items() if version is None]:
        raise _Fault("missing", f"no {', '.join(missing)}", "pip install -r requirements-gate.txt")
    return ", ".join(f"{package} {version}" for package, version in versions.items())


def _find_torch() -> str:
    """Return the version of torch."""
    if not has_package("torch"):
        advice = "evaluate, gate, history and compare work; to train, pip install mptctl without --no-deps"
        raise _Fault("missing", "none", advice)
    import torch

    return str(torch.__version__)


def _find_jpeg() -> str:
    """Return name and version of torchcodec, if it decodes JPEG files; Pillow is used otherwise."""
    decoder = jpeg_decoder()
    if decoder.problem:
        state: State = "unusable" if has_package("torchcodec") else "missing"
        raise _Fault(state, f"{decoder.name}: {decoder.problem}", INSTALL)
    return f"{decoder.name} {version_of(decoder.name)}"


def _find_gpu() -> str:
    """Return the names of the GPUs on which torch computes."""
    if not has_package("torch"):
        raise _Fault("missing", "none", "torch finds GPUs, and is not installed")
    import torch

    if not torch.cuda.is_available():
        version = f" for CUDA {torch.version.cuda}" if torch.version.cuda else ""
        raise _Fault("missing", "none", f"training runs on the CPU; a GPU needs NVIDIA's driver{version}")
    try:
        torch.ones(8, device="cuda").sum().item()
    except RuntimeError as error:
        raise _Fault("unusable", one_line(error)[:80], "check the driver with nvidia-smi") from error
    return ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))


def _find_triton() -> str:
    """Return the version of Triton, if there is a GPU for the fused kernel."""
    advice = "pip install triton; the reference loss is used"
    version = _find_package("triton", advice)
    if not has_package("torch"):
        raise _Fault("missing", "none", advice)
    import torch

    if not torch.cuda.is_available():
        advice = "the fused kernel needs a GPU; on a CPU the loss is computed by PyTorch"
        raise _Fault("unusable", version, advice)
    return version


def _find_dali() -> str:
    """Return the version of DALI, if a pipeline runs."""
    if not has_package("nvidia.dali"):
        advice = "pip install nvidia-dali-cuda130 (Linux x86-64); image folders are read by threads instead"
        raise _Fault("missing", "none", advice)
    try:
        import numpy as np
        from nvidia.dali import Pipeline, fn
        from nvidia.dali import __version__ as version

        pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
        with pipe:
            pipe.set_outputs(fn.external_source(lambda: [np.zeros(1)], batch=True))
        pipe.build()
        pipe.run()
    except Exception as error:  # DALI raises many kinds
        raise _Fault("unusable", one_line(error)[:80], "set data.loader=threaded") from error
    return str(version)


def _find_storage(run_root: Path) -> str:
    """Return the free space at the run root, or at its nearest existing parent, if it can be written."""
    folder = run_root.absolute()
    while not folder.exists():
        folder = folder.parent
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        found = f"{folder} cannot be written: {error.strerror}"
        raise _Fault("unusable", found, "choose another --run-root") from error
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE:
        raise _Fault("unusable", f"{free / 1e9:.1f} GB free", "make room")
    return f"{free / 1e9:.0f} GB free at {folder}"
