"""A budget of flips in place of k: its recipe keys, and the adjustment that follows the training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mptctl.errors import UsageError

if TYPE_CHECKING:
    from mptctl.release.adjusting import AdjustRequest
    from mptctl.training.request import RunRequest


def budget_keys(max_nfr: float | None, confidence: float | None, k: float | None) -> dict[str, Any]:
    """Recipe keys of a budget; flags that were not given leave the recipe's.

    Raises:
        UsageError: both a budget and k are given.
    """
    if max_nfr is not None and k is not None:
        raise UsageError("--max-nfr and --k: the budget moves k; give one of them")
    flags = {"method.max_nfr": max_nfr, "method.confidence": confidence}
    return {key: value for key, value in flags.items() if value is not None}


def adjusted_afterwards(request: RunRequest) -> AdjustRequest | None:
    """How a run is adjusted once it is trained; None for one without a budget of flips.

    Raises:
        UsageError: something is in the way of the adjusted run that is not to be thrown away.
    """
    from mptctl.methods.rows import ROWS

    method = request.recipe.method
    if method.max_nfr is None or not ROWS[method.name].bias:
        return None
    from mptctl.evaluation.bias_choice import Budget
    from mptctl.models.run_folder import RunDir
    from mptctl.release.adjusting import SUFFIX, AdjustRequest

    replaces = request.overwrite or request.resume
    folder = request.folder.with_name(request.folder.name + SUFFIX)
    RunDir(folder).refuse_unusable("replace" if replaces else "refuse for good")
    return AdjustRequest(
        new=str(request.folder),
        run_root=request.split.run_root,
        old=None if request.old is None else str(request.old),
        budget=Budget(max_nfr=method.max_nfr / 100, confidence=method.confidence),
        device=request.recipe.runtime.device,
        overwrite=replaces,
    )
