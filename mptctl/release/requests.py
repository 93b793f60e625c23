"""The settings of `mptctl adjust` and `mptctl export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mptctl.errors import UsageError
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

if TYPE_CHECKING:
    from mptctl.evaluation.bias.choice import Budget

# Appended to the name of a run to name the adjusted one.
SUFFIX = "-adjusted"


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

    @property
    def budget(self) -> Budget | None:
        """The limits that a shift has to keep; None: no shift. Raises UsageError as `budget_of_flags`."""
        return budget_of_flags(self.max_nfr, self.max_er_increase, self.confidence)

    @property
    def models(self) -> dict[str, str]:
        """The models whose predictions are needed, by role."""
        return {"new": self.new} if self.old is None else {"old": self.old, "new": self.new}


def budget_of_flags(
    max_nfr: float | None, max_er_increase: float | None, confidence: float | None = None
) -> Budget | None:
    """The budget that flags name, as fractions; None without one.

    Args:
        max_nfr: percent.
        max_er_increase: percentage points.
        confidence: interval level; None: 0.95.

    Raises:
        UsageError: both limits are given, or one is out of range.
    """
    # Imported here, since help needs none of it, and scipy takes a third of a second.
    from mptctl.evaluation.bias.choice import Budget
    from mptctl.evaluation.limits import Limits

    if max_nfr is not None and max_er_increase is not None:
        raise UsageError(
            "--max-nfr and --max-er-increase: one is the limit and the other what it costs; give one"
        )
    level = Budget.confidence if confidence is None else confidence
    # As limits of the gate they are refused where one is out of range.
    limits = Limits(
        max_nfr=None if max_nfr is None else max_nfr / 100,
        max_er_increase=None if max_er_increase is None else max_er_increase / 100,
        confidence=level,
    )
    if not limits.given():
        return None
    return Budget(limits.max_nfr, limits.max_er_increase, level)


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
