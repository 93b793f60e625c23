"""The settings of the commands that train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from mptctl.files.request import (
    Confidence,
    Device,
    DryRun,
    Flag,
    Json,
    Log,
    MovedData,
    Old,
    Overrides,
    Overwrite,
    Plugins,
    RecipeName,
    Refs,
    Request,
    RunRoot,
)
from mptctl.names import Distance, Init
from mptctl.recipe.own import all_names


def _name_methods() -> str:
    """List the methods for the help of train-baseline, which also takes those of train-mpt unnamed."""
    names = [name for name in all_names("method") if name not in ("mpt-kl", "mpt-lm")]
    return f"{', '.join(names[:-1])} or {names[-1]}; or one of your own, by --plugin."


class TrainSettings(Request):
    """The settings that every training has."""

    run_root: RunRoot = Path("runs")
    data_root: MovedData = None
    recipe: RecipeName = None
    overrides: Overrides = Field([])
    plugins: Plugins = Field([])
    name: Annotated[str | None, Flag("RUN")] = None
    """Run folder below the run root. (default: the command's, such as old or mpt-kl)"""
    resume: Annotated[bool, Flag()] = False
    """Continue the run in the folder, by its own recipe."""
    overwrite: Overwrite = False
    seed: Annotated[int | None, Flag("N")] = None
    """Seed of weights, order and augmentation. (default: the recipe's)"""
    device: Device = None
    dry_run: DryRun = False
    print_recipe: Annotated[bool, Flag()] = False
    """Print the complete recipe as YAML and end."""
    as_json: Json = False

    @property
    def keys_set(self) -> set[str]:
        """The recipe keys that ``--set`` names."""
        return {override.partition("=")[0].strip() for override in self.overrides}


class LoggedSettings(TrainSettings):
    """The settings of a training, and where it is logged."""

    log: Log = Field([])


class IndependentRequest(LoggedSettings):
    """The training of an old model or a reference, whose default seed differs from the update's."""

    seed: Annotated[int | None, Flag("N")] = None
    """Seed of weights, order and augmentation. (default: the recipe's plus an offset, so that this model is
    independent of the update)"""


class EnsembleRequest(IndependentRequest):
    """The training of several references."""

    # Eight, as Zhao et al. (TPAMI 2024) have it.
    size: Annotated[int, Flag("N", low=1)] = 8
    """Number of members."""


class UpdateSettings(LoggedSettings):
    """The settings of the training of an update."""

    init: Annotated[Init | None, Flag()] = None
    """Begin with fresh weights, the old model's, or the reference's. (default: the recipe's)"""
    old: Old = "old"
    refs: Refs = Field([])
    cache_teachers: Annotated[bool, Flag()] = False
    """Keep teacher logits on disk and share them between runs."""


class MptRequest(UpdateSettings):
    """The training of an update by margin preserving training."""

    distance: Annotated[Distance | None, Flag()] = None
    """Distance to the teachers: kl (KL divergence) or lm (logit matching). (default: kl)"""
    k: Annotated[float | None, Flag()] = None
    """Bias k, added to the new classes' logits in training. (default: the recipe's)"""
    max_nfr: Annotated[float | None, Flag("PCT")] = None
    """Largest NFR, in place of --k: k is adjusted in training so that NFR stays within it."""
    confidence: Confidence = None
    no_ref: Annotated[bool, Flag()] = False
    """Distil from the old model alone; no reference is needed."""


class BaselineRequest(UpdateSettings):
    """The training of an update with a rival method, or plainly."""

    method: Annotated[str, Flag("METHOD", _name_methods, positional=True)]
    k: Annotated[float | None, Flag()] = None
    """Bias k, added to the new classes' logits in training; for mpt-kl-noref, mpt-lm-noref and mpt-nodistill.
    (default: the recipe's)"""
