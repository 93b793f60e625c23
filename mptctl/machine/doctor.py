"""Checks which packages and devices are usable on this machine, with advice about the others."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
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
    found: str = Field(description="version, or what was found instead")
    advice: str | None = Field(None, description="what to do if the state is not ok; else null")


class DoctorReport(Model):
    """All checks, and their conclusion."""

    checks: list[Check] = Field(description="one for each package, device and resource")
    conclusion: str = Field(
        "", description="what is fastest on this machine, and what to do first, in one sentence"
    )


def examine(run_root: Path) -> list[Check]:
    """Check everything that the commands use; DALI, torchcodec and the GPU are tried, not only looked up.

    Args:
        run_root: folder whose disk is checked; it need not exist.
    """
    return [
        _check_python(),
        _check_comparisons(),
        _check_torch(),
        _check_package(
            "torchvision", "torchvision", "pip install torchvision, of the release that fits torch"
        ),
        _check_jpeg(),
        _check_gpu(),
        _check_triton(),
        _check_dali(),
        _check_package("Ray Tune", "ray", "pip install 'ray[tune]'; tune needs it"),
        Check(name="cores", state="ok", found=str(usable_cores())),
        _check_storage(run_root),
    ]


def conclude(checks: Sequence[Check]) -> str:
    """Describe in a sentence what trains and what reads pictures on this machine, and what to repair first.

    Args:
        checks: as returned by `examine`.
    """
    states = {check.name: check for check in checks}
    torch = states.get("torch")
    if torch is not None and torch.state == "missing":
        return f"Releases are gated here, and nothing is trained; torch: {torch.advice}."
    has_gpu, has_dali = states["GPU"].state == "ok", states["DALI"].state == "ok"
    device = states["GPU"].found if has_gpu else f"the CPU ({states['cores'].found} cores)"
    summary = f"Training takes {device}, picture folders {'DALI' if has_dali else 'threads'}"
    # A machine without a GPU needs neither the GPU nor Triton.
    not_needed = () if has_gpu else ("GPU", "Triton")
    wrong = [check for check in checks if check.state != "ok" and check.name not in not_needed]
    if not wrong:
        return f"{summary}: nothing is to be set; mptctl bench loader measures what is fastest here."
    return f"{summary}; first mend {wrong[0].name}: {wrong[0].advice or wrong[0].found}."


def _check_python() -> Check:
    """Check that the version of Python is supported."""
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info < (3, 14):
        return Check(name="Python", state="ok", found=version)
    return Check(name="Python", state="unusable", found=version, advice="use Python 3.11 to 3.13")


def _check_comparisons() -> Check:
    """Check that what compares predictions is installed; it is all that a gate needs."""
    versions = {package: version_of(package) for package in COMPARES}
    missing = [package for package, version in versions.items() if version is None]
    if missing:
        advice = "pip install -r requirements-gate.txt"
        return Check(name="comparisons", state="missing", found=f"no {', '.join(missing)}", advice=advice)
    found = ", ".join(f"{package} {version}" for package, version in versions.items())
    return Check(name="comparisons", state="ok", found=found)


def _check_torch() -> Check:
    """Check that torch is installed in a supported version."""
    if not has_package("torch"):
        advice = "evaluate, gate, history and compare work; to train, pip install mptctl without --no-deps"
        return Check(name="torch", state="missing", found="none", advice=advice)
    import torch

    if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 11):
        return Check(
            name="torch", state="unusable", found=torch.__version__, advice="pip install 'torch>=2.11'"
        )
    return Check(name="torch", state="ok", found=torch.__version__)


def _check_jpeg() -> Check:
    """Check that torchcodec decodes JPEG files; Pillow is used otherwise."""
    decoder = jpeg_decoder()
    if not decoder.problem:
        return Check(name="JPEG", state="ok", found=f"{decoder.name} {version_of(decoder.name)}")
    state: State = "unusable" if has_package("torchcodec") else "missing"
    return Check(name="JPEG", state=state, found=f"{decoder.name}: {decoder.problem}", advice=INSTALL)


def _check_gpu() -> Check:
    """Check that torch computes on a GPU."""
    if not has_package("torch"):
        return Check(
            name="GPU", state="missing", found="none", advice="torch finds GPUs, and is not installed"
        )
    import torch

    if not torch.cuda.is_available():
        version = f" for CUDA {torch.version.cuda}" if torch.version.cuda else ""
        advice = f"training runs on the CPU; a GPU needs NVIDIA's driver{version}"
        return Check(name="GPU", state="missing", found="none", advice=advice)
    try:
        torch.ones(8, device="cuda").sum().item()
    except RuntimeError as error:
        return Check(
            name="GPU",
            state="unusable",
            found=one_line(error)[:80],
            advice="check the driver with nvidia-smi",
        )
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Check(name="GPU", state="ok", found=", ".join(names))


def _check_triton() -> Check:
    """Check that Triton and a GPU are there for the fused kernel."""
    version = version_of("triton")
    if version is None or not has_package("torch"):
        advice = "pip install triton; the reference loss is used"
        return Check(name="Triton", state="missing", found="none", advice=advice)
    import torch

    if not torch.cuda.is_available():
        advice = "the fused kernel needs a GPU; on a CPU the loss is computed by PyTorch"
        return Check(name="Triton", state="unusable", found=version, advice=advice)
    return Check(name="Triton", state="ok", found=version)


def _check_dali() -> Check:
    """Check that a pipeline of DALI runs."""
    if not has_package("nvidia.dali"):
        return Check(
            name="DALI",
            state="missing",
            found="none",
            advice="pip install nvidia-dali-cuda130 (Linux x86-64); image folders are read by threads "
            "instead",
        )
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
        return Check(
            name="DALI", state="unusable", found=one_line(error)[:80], advice="set data.loader=threaded"
        )
    return Check(name="DALI", state="ok", found=str(version))


def _check_storage(run_root: Path) -> Check:
    """Check that the run root, or its nearest existing parent, can be written and has space."""
    folder = run_root.absolute()
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        return Check(name="storage", state="unusable", found=str(folder), advice="choose another --run-root")
    return check_free_space(folder, shutil.disk_usage(folder).free)


def check_free_space(folder: Path, free: int) -> Check:
    """Check that a disk has at least `MIN_FREE` bytes of free space.

    Args:
        folder: the folder for runs, for the message.
        free: free bytes on its disk.
    """
    if free < MIN_FREE:
        return Check(name="storage", state="unusable", found=f"{free / 1e9:.1f} GB free", advice="make room")
    return Check(name="storage", state="ok", found=f"{free / 1e9:.0f} GB free at {folder}")


def _check_package(name: str, package: str, advice: str) -> Check:
    """Check that a package, by its name on PyPI, is installed; ``name`` is shown."""
    version = version_of(package)
    if version is None:
        return Check(name=name, state="missing", found="none", advice=advice)
    return Check(name=name, state="ok", found=version)
