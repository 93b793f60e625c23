"""A small run to export, and its exports: each is made once for all tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mptctl.models.export_meta import sidecar_path
from mptctl.names import Session
from mptctl.release.export import ExportReport, ExportRequest, export

# Packages that each format needs beside torch.
NEEDS = {"onnx": ("onnx", "onnxscript", "onnxruntime"), "safetensors": ("safetensors",)}


def need(format_: str) -> None:
    """Skip where what a format needs is not installed."""
    for package in NEEDS[format_]:
        pytest.importorskip(package, reason=f"{package} is not installed (make test-integrations)")


def exported(root: Path, format_: str, out: Path, **keys: object) -> ExportReport:
    """Export the new run."""
    need(format_)
    return export(ExportRequest(run="new", format=format_, out=out, **keys), Session(root))  # type: ignore[arg-type]


_MADE: dict[str, Path] = {}


def exported_copy(root: Path, format_: str, folder: Path) -> Path:
    """A copy of the new run's export, which is made once: the exporter to ONNX takes seconds."""
    need(format_)
    if format_ not in _MADE:
        _MADE[format_] = Path(exported(root, format_, root.parent / f"new.{format_}").file)
    shutil.copy(sidecar_path(_MADE[format_]), folder)
    return Path(shutil.copy(_MADE[format_], folder))
