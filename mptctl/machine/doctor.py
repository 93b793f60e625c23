"""The doctor: packages and devices that are usable on this machine, and what to do about the others."""

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
from mptctl.machine.kept_threads import KeptThreads, kept_here

State = Literal["ok", "missing", "unusable"]
# Less free disk than this, in bytes, and a run of a few checkpoints may not fit.
LEAST_FREE = 10**9
# Models whose number of threads is said.
MOST_SAID = 3


class Check(Model):
    """A thing that was looked at."""

    name: str = Field(description="what was looked at")
    state: State = Field(description="ok, missing or unusable")
    found: str = Field(description="version, or what was seen")
    advice: str | None = Field(None, description="what to do, where something is not ok")


class DoctorReport(Model):
    """The things that were looked at, and what follows."""

    checks: list[Check] = Field(description="one for each thing")
    conclusion: str = Field("", description="what is fastest here, and what to do, in one sentence")


def examine(run_root: Path) -> list[Check]:
    """Look at everything that the verbs use; each thing is tried, not only looked up."""
    return [
        _python(),
        _torch(),
        _package("torchvision", "torchvision", "pip install torchvision, of the release that fits torch"),
        _jpeg(),
        _gpu(),
        _triton(),
        _dali(),
        _package("Ray Tune", "ray", "pip install 'ray[tune]'; tune needs it"),
        Check(name="cores", state="ok", found=str(usable_cores())),
        judge_threads(kept_here()),
        _storage(run_root),
    ]


def conclusion(checks: Sequence[Check]) -> str:
    """Say in a sentence what computes and what reads pictures here, and what to mend first.

    Args:
        checks: of `examine`.
    """
    states = {check.name: check for check in checks}
    torch = states.get("torch")
    if torch is not None and torch.state == "missing":
        return f"Releases are gated here, and nothing is trained; torch: {torch.advice}."
    gpu, dali = (states[name].state == "ok" for name in ("GPU", "DALI"))
    computes = states["GPU"].found if gpu else f"the CPU ({states['cores'].found} cores)"
    said = f"Training takes {computes}, picture folders {'DALI' if dali else 'threads'}"
    # Without a GPU neither it nor Triton is anything to mend.
    wrong = [c for c in checks if c.state != "ok" and (gpu or c.name not in ("GPU", "Triton"))]
    if not wrong:
        return f"{said}: nothing is to be set; mptctl bench loader measures what is fastest here."
    first = wrong[0]
    return f"{said}; first mend {first.name}: {first.advice or first.found}."


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info < (3, 14):
        return Check(name="Python", state="ok", found=version)
    return Check(name="Python", state="unusable", found=version, advice="use Python 3.11 to 3.13")


def _torch() -> Check:
    if not has_package("torch"):
        advice = "evaluate, gate, history and compare work; to train, pip install mptctl without --no-deps"
        return Check(name="torch", state="missing", found="none", advice=advice)
    import torch

    if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 11):
        return Check(
            name="torch", state="unusable", found=torch.__version__, advice="pip install 'torch>=2.11'"
        )
    return Check(name="torch", state="ok", found=torch.__version__)


def _jpeg() -> Check:
    decoder = jpeg_decoder()
    if not decoder.problem:
        return Check(name="JPEG", state="ok", found=f"{decoder.name} {version_of(decoder.name)}")
    state: State = "unusable" if has_package("torchcodec") else "missing"
    return Check(name="JPEG", state=state, found=f"{decoder.name}: {decoder.problem}", advice=INSTALL)


def _gpu() -> Check:
    if not has_package("torch"):
        return Check(
            name="GPU", state="missing", found="none", advice="torch finds GPUs, and is not installed"
        )
    import torch

    if not torch.cuda.is_available():
        built = torch.version.cuda
        advice = "training runs on the CPU; a GPU needs NVIDIA's driver" + (
            f" for CUDA {built}" if built else ""
        )
        return Check(name="GPU", state="missing", found="none", advice=advice)
    try:
        torch.ones(8, device="cuda").sum().item()
    except RuntimeError as error:
        text = one_line(error)[:80]
        return Check(name="GPU", state="unusable", found=text, advice="check the driver with nvidia-smi")
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Check(name="GPU", state="ok", found=", ".join(names))


def _triton() -> Check:
    version = version_of("triton")
    if version is None or not has_package("torch"):
        advice = "pip install triton; the reference loss is used"
        return Check(name="Triton", state="missing", found="none", advice=advice)
    import torch

    if not torch.cuda.is_available():
        advice = "the fused kernel needs a GPU; on a CPU the loss is computed by PyTorch"
        return Check(name="Triton", state="unusable", found=version, advice=advice)
    return Check(name="Triton", state="ok", found=version)


def _dali() -> Check:
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
    except Exception as error:  # whatever DALI raises, it cannot be used
        text = one_line(error)[:80]
        return Check(name="DALI", state="unusable", found=text, advice="set data.loader=threaded")
    return Check(name="DALI", state="ok", found=str(version))


def judge_threads(kept: Sequence[KeptThreads]) -> Check:
    """Say how many threads train each model fastest here, as far as that was timed.

    Args:
        kept: for this machine, the latest last.
    """
    said = [f"{each.threads} for {each.name}" for each in reversed(kept)]
    more = [f"{len(said) - MOST_SAID} more"] if len(said) > MOST_SAID else []
    found = "; ".join(said[:MOST_SAID] + more) or "timed before a run's first step"
    return Check(name="threads", state="ok", found=found)


def _storage(run_root: Path) -> Check:
    folder = run_root.absolute()
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        return Check(name="storage", state="unusable", found=str(folder), advice="choose another --run-root")
    return judge_storage(folder, shutil.disk_usage(folder).free)


def judge_storage(folder: Path, free: int) -> Check:
    """Check whether there is room for runs.

    Args:
        folder: where run folders go, or would be made.
        free: bytes that are free there.
    """
    if free < LEAST_FREE:
        return Check(name="storage", state="unusable", found=f"{free / 1e9:.1f} GB free", advice="make room")
    return Check(name="storage", state="ok", found=f"{free / 1e9:.0f} GB free at {folder}")


def _package(name: str, package: str, advice: str) -> Check:
    version = version_of(package)
    if version is None:
        return Check(name=name, state="missing", found="none", advice=advice)
    return Check(name=name, state="ok", found=version)
