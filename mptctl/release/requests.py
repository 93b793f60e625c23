"""The settings of `mptctl adjust` and `mptctl export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mptctl.files.request import (
    Confidence,
    Flag,
    Json,
    ModelRequest,
    MovedData,
    Overwrite,
    Request,
    RunRoot,
    argument,
)
from mptctl.names import ExportFormat


class AdjustSettings(ModelRequest):
    """A run to adjust, the limits of the adjustment, and what is written."""

    new: Annotated[str, argument("NEW")]
    """The update: run name, run folder or .pt file."""
    old: Annotated[str | None, Flag("OLD")] = None
    """Old model: run name, run folder or .pt file; not needed for --temperature alone."""
    max_nfr: Annotated[float | None, Flag("PCT")] = None
    """Largest NFR: the shift of least error that keeps it, at --confidence, is chosen."""
    max_er_increase: Annotated[float | None, Flag("PTS")] = None
    """Largest increase of error on all classes, in points: the shift of least NFR that keeps it is chosen."""
    confidence: Confidence = None
    temperature: Annotated[bool, Flag()] = False
    """Fit a temperature, which changes calibration alone."""
    name: Annotated[str | None, Flag("RUN")] = None
    """Run folder below the run root. (default: NEW-adjusted)"""
    overwrite: Overwrite = False
    as_json: Json = False


class ExportRequest(Request):
    """The run to export, and how."""

    run: Annotated[str, argument("RUN")]
    """The model: run name, run folder or .pt file."""
    format: Annotated[ExportFormat, Flag()]
    """ONNX, or weights alone."""
    out: Annotated[Path | None, Flag("FILE")] = None
    """File to write. (default: beside the run's best.pt)"""
    with_preprocessing: Annotated[bool, Flag()] = False
    """ONNX: it takes decoded pictures, (B, S, S, 3) uint8, and normalises them."""
    # Programs that add the same float32 numbers in another order differ by far less than the default, a wrong
    # normalisation or a layer in training mode by far more.
    tolerance: Annotated[float, Flag("X")] = 1e-3
    """Largest difference of two logits."""
    run_root: RunRoot = Path("runs")
    data_root: MovedData = None
    as_json: Json = False

    def file(self, checkpoint: Path) -> Path:
        """The path of the exported file, for the path of a checkpoint."""
        if self.out is not None:
            return self.out.expanduser()
        return checkpoint.with_suffix(f".{self.format}")
