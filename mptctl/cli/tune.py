"""`mptctl tune`: build a search from settings, run it, and write and print its result."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import typer
from rich.console import Console

from mptctl.cli.budget import refuse_without_budget
from mptctl.cli.dry_run_lines import describe_dry_run
from mptctl.cli.messages import next_command
from mptctl.cli.show import show
from mptctl.cli.train import Inputs, read_inputs
from mptctl.errors import UsageError
from mptctl.evaluation.bias.choice import Budget
from mptctl.methods.rows import chosen_mpt_method, refuse_unused_keys, row_of
from mptctl.models.ownership import refuse_own_inputs, run_folder
from mptctl.models.run_folder import find_checkpoint, find_references
from mptctl.names import Sampler
from mptctl.recipe import Recipe
from mptctl.recipe.search import Axis, parse_key_axis
from mptctl.release.requests import budget_of_flags
from mptctl.report.documents.tune import save_tune_figure, tune_document, watch_search
from mptctl.report.media.progress_bars import print_plain_line, throttled_log
from mptctl.report.media.provenance import provenance
from mptctl.tune.request import TuneRequest
from mptctl.tune.space import DEFAULT_K, mpt_axes
from mptctl.tune.tune_settings import TuneSettings

# Percentage points of error above the reference's that the choice may have, where no flag sets a limit.
MAX_ER_INCREASE = 0.5


def tune_k(asked: TuneSettings) -> None:
    """Search k and further settings, write the chosen recipe and print the table of trials.

    With --print-recipe or --dry-run, print the recipe or the plan instead.

    Raises:
        GateFailed: no trial keeps the limit.
        MptctlError: settings, a split, a recipe or teachers that cannot be used; or as a search.
    """
    if asked.method is not None:
        row_of(asked.method)  # UsageError if there is none
    axes = _read_axes(asked)
    sampler = _choose_sampler(asked.sampler, axes)
    budget = _choose_budget(asked)
    if asked.trials is not None and sampler == "grid":
        raise UsageError("--trials: a grid has as many trials as its values; give --sampler random or optuna")
    refs = asked.refs or ["ref"]
    inputs = read_inputs(asked, teachers=[asked.old, *refs], method=asked.method)
    folder = run_folder(asked.run_root, asked.name or "tune")
    if asked.recipe is not None and Path(asked.recipe).expanduser().is_file():
        refuse_own_inputs(folder, [Path(asked.recipe)])
    keys = {
        "method.name": asked.method or chosen_mpt_method(inputs.recipe.method),
        "runtime.cache_teachers": asked.cache_teachers,
    }
    recipe = inputs.with_keys(keys)
    if asked.print_recipe:
        typer.echo(recipe.to_yaml(), nl=False)
        return
    request = TuneRequest(
        recipe=recipe,
        split=inputs.split,
        folder=folder,
        old=find_checkpoint(asked.old, asked.run_root),
        refs=find_references(refs, asked.run_root),
        axes=axes,
        sampler=sampler,
        trials=asked.trials or 8,
        asha=asked.asha,
        budget=budget,
        ray_address=asked.ray_address,
        cpus_per_trial=asked.cpus_per_trial,
        gpus_per_trial=_gpus_per_trial(recipe) if asked.gpus_per_trial is None else asked.gpus_per_trial,
        max_concurrent=asked.max_concurrent,
        resume=asked.resume,
        overwrite=asked.overwrite,
        data_root=asked.data_root,
    )
    if asked.dry_run:
        _print_dry_run(inputs, request)
        return
    _search_and_print(request, asked)


def _choose_sampler(asked: Sampler | None, axes: tuple[Axis, ...]) -> Sampler:
    """The sampler that is asked for, or random for ranges, else grid; UsageError for a grid of ranges."""
    if not any(axis.range for axis in axes):
        return asked or "grid"
    if asked == "grid":
        raise UsageError("--sampler grid: needs values, as a,b,c; ranges are for random and optuna")
    return asked or "random"


def _read_axes(asked: TuneSettings) -> tuple[Axis, ...]:
    """The axes of the search, as --search or the flags of MPT name them.

    Raises:
        UsageError: values cannot be read, or flags contradict each other.
    """
    keys = tuple(parse_key_axis(word) for word in asked.search)
    if asked.method is None and not keys:
        return mpt_axes(asked.k or DEFAULT_K[asked.sampler or "grid"], asked.distance)
    if asked.method is None or not keys:
        raise UsageError(
            "tune METHOD --search KEY=VALUES: name both, a method and what is searched of it, such as tune "
            "pct-kl --search method.lam=0.1..10:log; tune alone searches k of MPT"
        )
    if len({axis.name for axis in keys}) < len(keys):
        raise UsageError("--search: names a key twice; give all of its values in one --search")
    if asked.k is not None or asked.distance is not None:
        raise UsageError("--k, --distance: are for tune without METHOD; give --search method.k=VALUES")
    refuse_unused_keys(asked.method, [axis.name for axis in keys], "--search")
    return keys


def _choose_budget(asked: TuneSettings) -> Budget:
    """The limit that the chosen trial has to keep: the given one, else `MAX_ER_INCREASE`."""
    refuse_without_budget(asked.max_nfr, asked.confidence)
    given = budget_of_flags(asked.max_nfr, asked.max_er_increase, asked.confidence)
    return given or Budget(max_er_increase=MAX_ER_INCREASE / 100)


def _gpus_per_trial(recipe: Recipe) -> float:
    """The GPUs of a trial without --gpus-per-trial: one where the recipe computes on a GPU, else none."""
    from mptctl.machine.device import choose_device

    return 1.0 if choose_device(recipe.runtime.device).type == "cuda" else 0.0


def _search_and_print(request: TuneRequest, asked: TuneSettings) -> None:
    """Search; write the figure and the page; print the table, the paths written and the next command.

    Raises:
        GateFailed: no trial keeps the limit.
    """
    from mptctl.tune.sweep import refuse_if_none, sweep

    console = Console(stderr=True)
    print_line = partial(print_plain_line, console)
    with watch_search(console) as on_update:
        report = sweep(request, on_update, print_line, throttled_log(print_line))
    digests = {"split": report.split_fingerprint, **report.teachers}
    written = save_tune_figure(report, request.folder, provenance(sys.argv, digests))
    show(report, tune_document, as_json=asked.as_json)
    if report.best_recipe is not None:
        written.insert(0, Path(report.best_recipe))
    for path in written:
        typer.echo(f"wrote {path}", err=True)
    refuse_if_none(report)
    if report.best_recipe is not None and not asked.as_json:
        verb = ["train-mpt"] if asked.method is None else ["train-baseline", asked.method]
        words = [*verb, "--recipe", report.best_recipe]
        typer.echo(next_command(words, request.split.run_root), err=True)


def _print_dry_run(inputs: Inputs, request: TuneRequest) -> None:
    """Print the trials of a search and the plan of the first one, as lines or JSON; nothing is written."""
    from mptctl.tune.prepare import dry_run

    plan = dry_run(request, inputs.recipe_name)
    names = ", chosen as they go" if plan.names is None else f": {', '.join(plan.names)}"
    lines = [
        f"{plan.trials} trials{names}",
        f"each of them takes {plan.cpus_per_trial} CPU and {plan.gpus_per_trial:g} GPU, for "
        f"{request.recipe.optim.epochs} epochs; the first of them:",
        *describe_dry_run(plan.first),
        "nothing was written",
    ]
    show(plan, lambda _: "\n".join(lines), as_json=inputs.asked.as_json)
