"""A budget of flips in place of k: its recipe keys, and the adjustment that follows the training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mptctl.errors import UsageError

if TYPE_CHECKING:
    from mptctl.recipe import MethodRecipe
    from mptctl.release.adjusting import AdjustRequest
    from mptctl.training.request import RunRequest


def budget_keys(
    max_nfr: float | None, confidence: float | None, k: float | None, before: MethodRecipe
) -> dict[str, Any]:
    """Recipe keys of a budget; flags that were not given leave those of the recipe as it is before.

    Raises:
        UsageError: both a budget and k are given, or a confidence without a budget.
    """
    if max_nfr is not None and k is not None:
        raise UsageError("--max-nfr and --k: the budget moves k; give one of them")
    if confidence is not None and max_nfr is None and before.max_nfr is None:
        raise UsageError(f"--confidence {confidence:g}: says how sure a budget must be; give --max-nfr too")
    flags = {"method.max_nfr": max_nfr, "method.confidence": confidence}
    return {key: value for key, value in flags.items() if value is not None}


def adjusted_afterwards(request: RunRequest) -> AdjustRequest | None:
    """How a run is adjusted once it is trained; None for one without a budget of flips.

    Raises:
        UsageError: something is in the way of the adjusted run that is not to be thrown away.
    """
    from mptctl.methods.rows import budget_of

    limit = budget_of(request.recipe.method)
    if limit is None:
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
        budget=Budget(max_nfr=limit, confidence=request.recipe.method.confidence),
        device=request.recipe.runtime.device,
        overwrite=replaces,
    )
