"""All kinds of loaders in order of preference, and the choice of one with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mptctl.data.loading.base import Loader
from mptctl.data.loading.dali import DaliCpuLoader, DaliMixedLoader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.loading.resident import ResidentLoader
from mptctl.data.loading.threaded import ThreadedLoader
from mptctl.errors import UsageError
from mptctl.names import Progress, tell_nobody

# `auto` takes the first that does not decline the plan.
LOADERS: tuple[type[Loader], ...] = (ResidentLoader, DaliCpuLoader, DaliMixedLoader, ThreadedLoader)


class LoaderChoice(NamedTuple):
    """The kind of loader that serves a plan, and the reason.

    Attributes:
        loader: the kind; its ``name`` is what the log calls it.
        reason: one sentence for the log, with the samples that no batch holds and what decodes JPEG files.
        jpeg_decoder: what decodes them; None where no picture is a file.
    """

    loader: type[Loader]
    reason: str
    jpeg_decoder: str | None


def make_loader(plan: LoadPlan, cache_dir: Path | None = None, progress: Progress = tell_nobody) -> Loader:
    """Choose a loader by size, device and what is installed, unless the recipe names one.

    Args:
        plan: what is read.
        cache_dir: folder for decoded pictures; default ``cache`` below the split's run root.
        progress: told how many pictures are decoded while the resident loader decodes.

    Raises:
        UsageError: the recipe's loader cannot do what is asked here.
        DataError: a picture is gone, changed or damaged.
    """
    choice = choose_loader(plan)
    return choice.loader(plan, choice.reason, cache_dir or plan.split.run_root / "cache", progress)


def choose_loader(plan: LoadPlan) -> LoaderChoice:
    """Choose the kind of loader that serves a plan; nothing is decoded.

    Raises:
        UsageError: the recipe names a loader that cannot serve this plan here.
    """
    kinds = [kind for kind in LOADERS if plan.device.type in kind.devices]
    kind, why = _choose(plan, kinds)
    decoder = None if plan.split.manifest.is_array else kind.jpeg_decoder()
    read = "" if decoder is None else f"; JPEG files by {decoder}"
    left_out = (
        f"; the last {plan.left_out} samples of each epoch's order make no whole batch and are left out"
        if plan.left_out
        else ""
    )
    return LoaderChoice(kind, f"{kind.name} loader: {why}{read}{left_out}", decoder)


def _choose(plan: LoadPlan, kinds: list[type[Loader]]) -> tuple[type[Loader], str]:
    """The kind of loader that serves a plan, and why, in few words."""
    if plan.data.loader != "auto":
        # There is one kind of a name for each device.
        (kind,) = (kind for kind in kinds if kind.recipe_name == plan.data.loader)
        why_impossible = kind.refuses(plan)
        if why_impossible is not None:
            raise UsageError(f"data.loader {plan.data.loader}: {why_impossible}")
        return kind, "the recipe asks for it"
    why_not_others: list[str] = []
    for kind in kinds:
        why_another = kind.declines(plan)
        if why_another is None:
            return kind, ", and ".join(why_not_others) or kind.suits(plan)
        why_not_others.append(why_another)
    raise AssertionError("the last kind of loader serves every plan")
