"""All kinds of loaders in order of preference, and the choice of one with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from mptctl.data.loading.base import Loader
from mptctl.data.loading.dali import DaliCpuLoader, DaliMixedLoader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.loading.resident import ResidentLoader
from mptctl.data.loading.threaded import ThreadedLoader
from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.names import Part, Progress, tell_nobody
from mptctl.recipe import DataRecipe

# `auto` takes the first that does not decline the plan.
LOADERS: tuple[type[Loader], ...] = (ResidentLoader, DaliCpuLoader, DaliMixedLoader, ThreadedLoader)


class LoaderChoice(NamedTuple):
    """Which kind of loader serves a plan, and why.

    Attributes:
        loader: the kind; its ``name`` is what the log calls it.
        reason: one sentence for the log, with the samples that no batch holds.
    """

    loader: type[Loader]
    reason: str


def make_loader(
    split: Split,
    data: DataRecipe,
    part: Part,
    *,
    batch_size: int,
    seed: int,
    train: bool,
    device: torch.device,
    num_classes: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    cache_dir: Path | None = None,
    dtype: torch.dtype = torch.float32,
    progress: Progress = tell_nobody,
) -> Loader:
    """Choose a loader by size, device and what is installed, unless the recipe names one.

    Args:
        split: which pictures, and their labels.
        data: picture size, augmentation, normalisation and the loader's settings.
        part: ``train``, ``val`` or ``test``.
        batch_size: samples of a global batch, over all workers.
        seed: seed of order and augmentation.
        train: shuffled and augmented, or every sample once in the manifest's order.
        device: where batches shall be.
        num_classes: only samples of the first so many classes.
        rank, world_size: which worker this is, of how many.
        cache_dir: folder for decoded pictures; default ``cache`` below the split's run root.
        dtype: type of the pictures.
        progress: told how many pictures are decoded while the resident loader decodes.

    Raises:
        UsageError: the recipe's loader cannot do what is asked here, or a batch is larger than the part.
        DataError: a picture is gone, changed or damaged.
    """
    plan = LoadPlan(
        split=split, data=data, part=part, batch_size=batch_size, seed=seed, train=train, device=device,
        num_classes=num_classes, rank=rank, world_size=world_size, dtype=dtype,
    )  # fmt: skip
    choice = choose_loader(plan)
    return choice.loader(plan, choice.reason, cache_dir or split.run_root / "cache", progress)


def choose_loader(plan: LoadPlan) -> LoaderChoice:
    """Which loader serves a plan, and why; nothing is decoded.

    Raises:
        UsageError: the recipe names a loader that cannot serve this plan here.
    """
    kinds = [kind for kind in LOADERS if plan.device.type in kind.devices]
    if plan.data.loader != "auto":
        (kind,) = (kind for kind in kinds if kind.recipe_name == plan.data.loader)
        refused = kind.refuses(plan)
        if refused is not None:
            raise UsageError(f"data.loader {plan.data.loader}: {refused}")
        return _choice(kind, plan, "the recipe asks for it")
    reasons: list[str] = []
    for kind in kinds:
        declined = kind.declines(plan)
        if declined is None:
            return _choice(kind, plan, ", and ".join(reasons) or kind.suits(plan))
        reasons.append(declined)
    raise AssertionError("the last kind of loader serves every plan")


def _choice(kind: type[Loader], plan: LoadPlan, why: str) -> LoaderChoice:
    left_out = (
        f"; the last {plan.left_out} samples of each epoch's order make no whole batch and are left out"
        if plan.left_out
        else ""
    )
    return LoaderChoice(kind, f"{kind.name} loader: {why}{left_out}")
