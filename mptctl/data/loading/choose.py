"""Makes the loader that serves a plan, and says why it is of its kind."""

from __future__ import annotations

from pathlib import Path

from mptctl.data.loading.base import Loader
from mptctl.data.loading.dali import DaliCpuLoader, DaliMixedLoader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.loading.resident import ResidentLoader, describe_memory
from mptctl.data.loading.threaded import ThreadedLoader
from mptctl.errors import UsageError
from mptctl.names import Progress, tell_nobody

# In order of preference: `auto` takes the first one that has no `why_not` for the plan.
LOADERS: tuple[type[Loader], ...] = (ResidentLoader, DaliCpuLoader, DaliMixedLoader, ThreadedLoader)


def make_loader(plan: LoadPlan, cache_dir: Path | None = None, progress: Progress = tell_nobody) -> Loader:
    """Make the loader that the recipe names, else the first suitable one of `LOADERS`.

    It reads no picture until it is opened.

    Args:
        plan: which pictures are read, and how.
        cache_dir: folder for decoded pictures; None: ``cache`` below the split's run root.
        progress: shows how many pictures are decoded while the resident loader decodes.

    Raises:
        UsageError: the recipe names a loader that cannot serve this plan on this machine.
    """
    name = plan.data.loader
    is_asked = name != "auto"
    obstacles: list[str] = []
    for loader in LOADERS:
        if plan.device.type not in loader.devices or (is_asked and loader.recipe_name != name):
            continue
        obstacle = loader.why_not(plan, is_asked=is_asked)
        if obstacle is None:
            reason = _explain(plan, loader, obstacles)
            return loader(plan, reason, cache_dir or plan.split.run_root / "cache", progress)
        obstacles.append(obstacle)
    # The last kind of loader serves every plan, so the recipe names another one.
    raise UsageError(f"data.loader {name}: {obstacles[0]}; use auto")


def _explain(plan: LoadPlan, loader: type[Loader], obstacles: list[str]) -> str:
    """Explain the choice of a loader, and name the JPEG decoder and the samples that training leaves out.

    Args:
        plan: which pictures are read, and how.
        loader: the one that serves the plan.
        obstacles: why each preferred loader does not serve it.
    """
    if plan.data.loader != "auto":
        why = "the recipe asks for it"
    elif obstacles:
        why = ", and ".join(obstacles)
    else:
        why = describe_memory(plan, "below")
    reason = f"{loader.name} loader: {why}"
    if not plan.split.manifest.is_array:
        reason += f"; JPEG files by {loader.jpeg_decoder_name()}"
    if plan.left_out:
        reason += (
            f"; the last {plan.left_out} samples of each epoch's order make no whole batch and are left out"
        )
    return reason
