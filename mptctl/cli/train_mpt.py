"""`mptctl train-mpt`: the update that keeps what the old model knew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.budget import budget_keys
from mptctl.cli.training_flags import TrainingFlags, training_flags
from mptctl.cli.training_verbs import method_keys, prints_run, read_inputs, run_training
from mptctl.names import Distance, MethodName

if TYPE_CHECKING:
    from mptctl.recipe import Recipe


@prints_run
@training_flags()
def train_mpt(
    flags: TrainingFlags,
    distance: Annotated[
        Distance | None,
        typer.Option(
            "--distance",
            help="Distance to the teachers: kl (KL divergence) or lm (logit matching). (default: kl)",
        ),
    ] = None,
    k: Annotated[
        float | None,
        typer.Option(
            "--k", help="Bias k, added to the new classes' logits in training. (default: the recipe's)"
        ),
    ] = None,
    max_nfr: Annotated[
        float | None,
        typer.Option(
            "--max-nfr",
            metavar="PCT",
            help="Largest NFR, in place of --k: k is adjusted in training so that NFR stays within it.",
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            "--confidence",
            help="Level of the two-sided interval of NFR whose upper end must keep --max-nfr. (default: 0.95)",
        ),
    ] = None,
    noise_floor: opt.NoiseFloor = None,
    old: opt.Old = "old",
    ref: opt.Refs = None,
    cache_teachers: opt.CacheTeachers = False,
    log: opt.Log = None,
) -> None:
    """Train the update with margin preserving training.

    Minimises cross-entropy with a bias k on the new classes' logits, and focal distillation from the old
    model and the reference. Writes the run folder `mpt-kl` or `mpt-lm`.

    With `--max-nfr` no k is needed: k is adjusted after each epoch of the third quarter of the run, by the
    flips of the validation part. Then `adjust` shifts the new classes' logits as far as the budget still
    needs, and writes the model that keeps the budget as `NAME-adjusted`. Exits with 3 where no shift keeps
    it.

    Examples:

        mptctl train-mpt --distance kl --k 1.5

        mptctl train-mpt --distance lm --k 4 --set optim.epochs=30

        mptctl train-mpt --max-nfr 2

        mptctl train-mpt --recipe runs/tune/best.yaml
    """
    inputs = read_inputs(flags, method_with(distance))
    method = method_with(distance, inputs.recipe)
    keys = method_keys(method, k, cache_teachers)
    keys |= budget_keys(max_nfr, confidence, k, inputs.recipe.method)
    run_training(inputs, keys, name=method, old=old, refs=ref or ["ref"], noise_floor=noise_floor, log=log)


def method_with(distance: Distance | None, recipe: Recipe | None = None) -> MethodName:
    """The method with a distance: that of the flag, or of the recipe's own method, or kl.

    So a recipe that was tuned needs no flag.
    """
    from mptctl.methods.rows import distance_of, mpt_method

    return mpt_method(distance or (recipe and distance_of(recipe.method.name)) or "kl")
