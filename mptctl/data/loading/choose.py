"""Chooses the kind of loader that serves a plan, and says why."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mptctl.data.loading.base import Loader
from mptctl.data.loading.dali import DaliCpuLoader, DaliMixedLoader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.loading.resident import ResidentLoader, describe_memory
from mptctl.data.loading.threaded import ThreadedLoader
from mptctl.errors import UsageError
from mptctl.names import Progress, tell_nobody

# In order of preference: `auto` takes the first one that has no `why_not` for the plan.
LOADERS: tuple[type[Loader], ...] = (ResidentLoader, DaliCpuLoader, DaliMixedLoader, ThreadedLoader)


class LoaderChoice(NamedTuple):
    """The kind of loader that serves a plan, and the reason.

    Attributes:
        loader: the class of the loader.
        reason: one sentence for the log; it also names the JPEG decoder, and the number of samples that
            training leaves out.
        jpeg_decoder: name of the program that decodes JPEG files; None for a source that is one array.
    """

    loader: type[Loader]
    reason: str
    jpeg_decoder: str | None


def make_loader(plan: LoadPlan, cache_dir: Path | None = None, progress: Progress = tell_nobody) -> Loader:
    """Make the loader that `choose_loader` chooses for a plan; it reads no picture until it is opened.

    Args:
        plan: which pictures are read, and how.
        cache_dir: folder for decoded pictures; None: ``cache`` below the split's run root.
        progress: told how many pictures are decoded while the resident loader decodes.

    Raises:
        UsageError: the recipe names a loader that cannot serve this plan on this machine.
    """
    choice = choose_loader(plan)
    return choice.loader(plan, choice.reason, cache_dir or plan.split.run_root / "cache", progress)


def choose_loader(plan: LoadPlan) -> LoaderChoice:
    """Choose the loader that the recipe names, else the first suitable one of `LOADERS`; nothing is decoded.

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
            return _describe_choice(plan, loader, obstacles)
        obstacles.append(obstacle)
    # The last kind of loader serves every plan, so the recipe names another one.
    raise UsageError(f"data.loader {name}: {obstacles[0]}; use auto")


def _describe_choice(plan: LoadPlan, loader: type[Loader], obstacles: list[str]) -> LoaderChoice:
    """Give the reason for a loader.

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
    decoder = None if plan.split.manifest.is_array else loader.jpeg_decoder_name()
    if decoder is not None:
        reason += f"; JPEG files by {decoder}"
    if plan.left_out:
        reason += (
            f"; the last {plan.left_out} samples of each epoch's order make no whole batch and are left out"
        )
    return LoaderChoice(loader, reason, decoder)
