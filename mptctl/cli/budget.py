"""The budget of flips that flags name, and the adjustment that follows a training with one."""

from __future__ import annotations

from mptctl.errors import UsageError
from mptctl.evaluation.bias.choice import Budget
from mptctl.evaluation.limits import Limits
from mptctl.methods.rows import nfr_budget
from mptctl.models.run_folder import RunDir
from mptctl.release.adjust_report import SUFFIX, AdjustRequest
from mptctl.training.request import RunRequest


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


def refuse_without_budget(max_nfr: float | None, confidence: float | None) -> None:
    """Raise UsageError for --confidence where no budget is given by --max-nfr."""
    if confidence is not None and max_nfr is None:
        raise UsageError(f"--confidence {confidence:g}: says how sure a budget must be; give --max-nfr too")


def plan_adjustment(request: RunRequest) -> AdjustRequest | None:
    """Return the adjustment that follows a training; None where its recipe has no budget of flips.

    Args:
        request: the training.

    Raises:
        UsageError: the folder of the adjusted run holds something that may not be thrown away.
    """
    limit = nfr_budget(request.recipe.method)
    if limit is None:
        return None
    replaces = request.overwrite or request.resume
    folder = request.folder.with_name(request.folder.name + SUFFIX)
    RunDir(folder).refuse_unusable("replace" if replaces else "refuse for good")
    return AdjustRequest(
        new=str(request.folder),
        old=None if request.old is None else str(request.old),
        budget=Budget(max_nfr=limit, confidence=request.recipe.method.confidence),
        overwrite=replaces,
    )
