"""The machine of a check: what a number is worth nothing without, found out without loading torch."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_CARD = (
    "name", "driver_version", "memory.total", "memory.used", "clocks.sm", "clocks.mem", "clocks.max.sm",
    "temperature.gpu", "power.draw", "mig.mode.current",
)  # fmt: skip
PACKAGES = (
    "torch", "torchvision", "triton", "numpy", "pydantic", "tensorboardX", "nvidia-dali-cuda130",
    "nvidia-nvimgcodec-cu13", "pytest", "pytest-xdist", "hypothesis",
)  # fmt: skip


def machine(rehearse: bool) -> dict[str, Any]:
    """Card, driver, clocks, other processes on it, versions, commit and date."""
    card = (
        None
        if rehearse
        else output("nvidia-smi", f"--query-gpu={','.join(_CARD)}", "--format=csv,noheader", "-i", "0")
    )
    others = (
        output("nvidia-smi", "--query-compute-apps=pid,name,used_memory", "--format=csv,noheader")
        if card
        else None
    )
    changed = output("git", "status", "--porcelain")
    return {
        "gpu": None if card is None else dict(zip(_CARD, card.split(", "), strict=False)),
        "other_processes": None if others is None else others.splitlines(),
        "cpu": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": {package: version_of(package) for package in PACKAGES},
        # A copy of the tree without its history is told which commit it is.
        "commit": output("git", "rev-parse", "HEAD") or os.environ.get("GIT_COMMIT"),
        "changed_since": None if changed is None else bool(changed),
        "rehearsal": rehearse,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def output(*command: str) -> str | None:
    """What a command prints, or None where it cannot be run."""
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in is not there
        return False
