"""The budget of flips that flags name, and the adjustment that follows a training with one."""

from __future__ import annotations

from mptctl.errors import UsageError
from mptctl.methods.rows import nfr_budget
from mptctl.models.run_folder import RunDir
from mptctl.release.requests import SUFFIX, AdjustSettings
from mptctl.training.request import RunRequest


def refuse_without_budget(max_nfr: float | None, confidence: float | None) -> None:
    """Raise UsageError for --confidence where no budget is given by --max-nfr."""
    if confidence is not None and max_nfr is None:
        raise UsageError(f"--confidence {confidence:g}: says how sure a budget must be; give --max-nfr too")


def plan_adjustment(request: RunRequest) -> AdjustSettings | None:
    """Return the adjustment that follows a training; None where its recipe has no budget of flips.

    Args:
        request: the training.

    Raises:
        UsageError: the folder of the adjusted run holds something that may not be thrown away.
    """
    method = request.recipe.method
    if nfr_budget(method) is None:
        return None
    replaces = request.overwrite or request.resume
    folder = request.folder.with_name(request.folder.name + SUFFIX)
    RunDir(folder).refuse_unusable("replace" if replaces else "refuse for good")
    return AdjustSettings(
        new=str(request.folder),
        old=None if request.old is None else str(request.old),
        max_nfr=method.max_nfr,
        confidence=method.confidence,
        overwrite=replaces,
    )
