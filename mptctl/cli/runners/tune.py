"""The work of `mptctl tune`: build a search from flags, run it, and write and print its result."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import typer
from rich.console import Console

from mptctl.cli.dry_run_lines import describe_dry_run
from mptctl.cli.messages import next_command
from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.cli.runners.budget import budget_of_flags, refuse_without_budget
from mptctl.cli.runners.train import Inputs, MptVariant, method_keys, read_inputs
from mptctl.cli.show import show
from mptctl.cli.training_flags import TrainingFlags
from mptctl.cli.tune_flags import TuneFlags
from mptctl.errors import UsageError
from mptctl.evaluation.bias.choice import Budget
from mptctl.files.kept_names import SEARCH_FILES
from mptctl.models.ownership import run_folder
from mptctl.models.run_folder import find_checkpoint, find_references
from mptctl.recipe import Recipe
from mptctl.report.documents.tune import save_tune_figure, watch_search
from mptctl.report.media.progress_bars import print_plain_line, throttled_log
from mptctl.report.media.provenance import provenance
from mptctl.tune.request import TuneRequest
from mptctl.tune.space import DEFAULT_K, Axis, parse_axis

# Percentage points of error above the reference's that the choice may have, where no flag sets a limit.
MAX_ER_INCREASE = 0.5


def tune_k(flags: TrainingFlags, tuning: TuneFlags) -> None:
    """Search k and further settings, write the chosen recipe and print the table of trials.

    With --print-recipe or --dry-run, print the recipe or the plan instead.

    Args:
        flags, tuning: as they were given.

    Raises:
        GateFailed: no trial keeps the limit.
        MptctlError: flags, a split, a recipe or teachers that cannot be used; or as a search.
    """
    if tuning.trials is not None and tuning.search == "grid":
        raise UsageError("--trials: a grid has as many trials as its values; give --search random or optuna")
    axes, budget = _parse_axes(tuning), _choose_budget(tuning)
    refs = tuning.ref or ["ref"]
    inputs = read_inputs(flags, teachers=[tuning.old, *refs])
    folder = run_folder(flags.run_root, flags.name or "tune")
    _check_outputs(flags, [tuning.old, *refs])
    keys = method_keys(MptVariant(None).method(inputs.recipe))
    recipe = inputs.with_keys(keys | {"runtime.cache_teachers": tuning.cache_teachers})
    if flags.print_recipe:
        typer.echo(recipe.to_yaml(), nl=False)
        return
    request = TuneRequest(
        recipe=recipe,
        split=inputs.split,
        folder=folder,
        old=find_checkpoint(tuning.old, flags.run_root),
        refs=find_references(refs, flags.run_root),
        axes=axes,
        search=tuning.search,
        trials=tuning.trials or 8,
        asha=tuning.asha,
        budget=budget,
        ray_address=tuning.ray_address,
        cpus_per_trial=tuning.cpus_per_trial,
        gpus_per_trial=_gpus_per_trial(recipe) if tuning.gpus_per_trial is None else tuning.gpus_per_trial,
        max_concurrent=tuning.max_concurrent,
        resume=flags.resume,
        overwrite=flags.overwrite,
        data_root=flags.data_root,
    )
    if flags.dry_run:
        _print_dry_run(inputs, request)
        return
    _search_and_print(request, flags.as_json)


def _parse_axes(tuning: TuneFlags) -> tuple[Axis, ...]:
    """The axes that flags name, and k in any case; the distance, which begins names of trials, is first."""
    flags = {"distance": tuning.axes.distance} | vars(tuning.axes)
    given = {name: text for name, text in flags.items() if text is not None}
    given.setdefault("k", DEFAULT_K[tuning.search])
    return tuple(parse_axis(name, given[name], tuning.search) for name in flags if name in given)


def _choose_budget(tuning: TuneFlags) -> Budget:
    """The limit that the chosen trial has to keep: of the flags, else `MAX_ER_INCREASE`."""
    refuse_without_budget(tuning.max_nfr, tuning.confidence)
    given = budget_of_flags(tuning.max_nfr, tuning.max_er_increase, tuning.confidence)
    return Budget(max_er_increase=MAX_ER_INCREASE / 100) if given is None else given


def _check_outputs(flags: TrainingFlags, models: list[str]) -> None:
    """Refuse files of the search that would overwrite an input or go through a link, before any computing."""
    outputs = Outputs()
    outputs.add_folder("tune", flags.run_root / (flags.name or "tune"), SEARCH_FILES, is_ours=True)
    inputs = files_read_for(models, flags.run_root)
    outputs.check([*inputs, Path(flags.recipe).expanduser()] if flags.recipe else inputs)


def _gpus_per_trial(recipe: Recipe) -> float:
    """The GPUs of a trial without --gpus-per-trial: one where the recipe computes on a GPU, else none."""
    from mptctl.machine.device import choose_device

    return 1.0 if choose_device(recipe.runtime.device).type == "cuda" else 0.0


def _search_and_print(request: TuneRequest, as_json: bool) -> None:
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
    show(report, "tune:tune_document", as_json=as_json)
    if report.best_recipe is not None:
        written.insert(0, Path(report.best_recipe))
    for path in written:
        typer.echo(f"wrote {path}", err=True)
    refuse_if_none(report)
    if report.best_recipe is not None and not as_json:
        words = ["train-mpt", "--recipe", report.best_recipe]
        typer.echo(next_command(words, request.split.run_root), err=True)


def _print_dry_run(inputs: Inputs, request: TuneRequest) -> None:
    """Print the trials of a search and the plan of the first one, as lines or JSON; nothing is written."""
    from mptctl.tune.dry_run import dry_run

    plan = dry_run(request)
    plan = plan.model_copy(update={"first": inputs.with_recipe_name(plan.first)})
    names = ", chosen as they go" if plan.names is None else f": {', '.join(plan.names)}"
    lines = [
        f"{plan.trials} trials{names}",
        f"each of them takes {plan.cpus_per_trial} CPU and {plan.gpus_per_trial:g} GPU, for "
        f"{request.recipe.optim.epochs} epochs; the first of them:",
        *describe_dry_run(plan.first),
        "nothing was written",
    ]
    show(plan, lambda _: typer.echo("\n".join(lines)), as_json=inputs.flags.as_json)
