"""The settings of `mptctl tune`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from mptctl.files.request import LEVEL, WHERE, Flag, Old, RayAddress, Refs, argument
from mptctl.names import Sampler
from mptctl.training.train_request import TrainSettings

SPACE, CHOICE = "What is searched", "What is chosen"


class TuneSettings(TrainSettings):
    """A search, the choice of its result, and where it runs."""

    method: Annotated[str | None, argument("METHOD")] = None
    """Method whose keys --search names, or one of your own by --plugin. (default: MPT, over k)"""
    k: Annotated[str | None, Flag("VALUES", panel=SPACE)] = None
    """Bias k, added to the new classes' logits in training: values, or a range as 0..8.
    (default: 0,0.5,1,1.5,2,4,8, or 0..8 with --sampler random or optuna)"""
    distance: Annotated[str | None, Flag("VALUES", panel=SPACE)] = None
    """Distance to the teachers: kl (KL divergence), lm (logit matching), or kl,lm. (default: the recipe's, or
    kl)"""
    search: Annotated[list[str], Flag("KEY=VALUES", panel=SPACE)] = Field([])
    """Key of METHOD to search, any of the recipe: KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=a,b,c.
    Repeatable."""
    sampler: Annotated[Sampler | None, Flag(panel=SPACE)] = None
    """Way to combine values to trials. (default: grid, or random where there is a range)"""
    trials: Annotated[int | None, Flag("N", low=1, panel=SPACE)] = None
    """Trials of a random or optuna search. (default: 8)"""
    asha: Annotated[bool, Flag(panel=SPACE)] = False
    """Stop poor trials early, by their validation NFR."""
    max_er_increase: Annotated[float | None, Flag("POINTS", low=-100, high=100, panel=CHOICE)] = None
    """Largest increase of validation error above the reference's, in points. (default: 0.5)"""
    max_nfr: Annotated[float | None, Flag("PCT", panel=CHOICE)] = None
    """Largest NFR, in place of --max-er-increase: of the trials shown to keep it, the lowest error."""
    confidence: Annotated[float | None, replace(LEVEL, panel=CHOICE)] = None
    ray_address: RayAddress = None
    gpus_per_trial: Annotated[float | None, Flag("N", low=0, panel=WHERE)] = None
    """May be a fraction, which shares a GPU. (default: 1 on a GPU, else 0)"""
    cpus_per_trial: Annotated[int, Flag("N", low=1, panel=WHERE)] = 1
    """Threads of a trial."""
    max_concurrent: Annotated[int | None, Flag("N", low=1, panel=WHERE)] = None
    """Most trials at once. (default: as many as fit)"""
    cache_teachers: Annotated[bool, Flag(names="--cache-teachers/--no-cache-teachers", panel=WHERE)] = True
    """Compute teacher logits once and share them between trials."""
    old: Old = "old"
    refs: Refs = Field([])
