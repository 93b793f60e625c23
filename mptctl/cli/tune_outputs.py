"""What `mptctl tune` prints and writes of a search, or says that it would do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mptctl.cli.show import show

if TYPE_CHECKING:
    from mptctl.cli.training_verbs import Inputs
    from mptctl.tune.request import TuneRequest


def check_outputs(folder: Path, run_root: Path, recipe: str | None, models: list[str]) -> None:
    """Refuse to write over the recipe that is read, or through a link, before anything is computed."""
    from mptctl.cli.outputs import Outputs, read_for_models
    from mptctl.files.output_kinds import SEARCH_FILES

    outputs = Outputs()
    outputs.folder("tune", folder, SEARCH_FILES, lambda path: None)
    inputs = read_for_models(models, run_root)
    outputs.check([*inputs, Path(recipe).expanduser()] if recipe else inputs)


def search_and_print(request: TuneRequest, as_json: bool) -> None:
    from rich.console import Console

    from mptctl.report.documents.tune import save_tune_figure, watching
    from mptctl.report.media.progress_bars import plain_line, throttled_log
    from mptctl.report.media.provenance import origin_of_search, provenance
    from mptctl.tune.sweep import refuse_if_none, sweep

    console = Console(stderr=True)

    def say(text: str) -> None:
        plain_line(console, text)

    with watching(console) as on_update:
        report = sweep(request, on_update, say, throttled_log(say))
    written = save_tune_figure(report, request.folder, provenance(sys.argv, [origin_of_search(report)]))
    show(report, "tune:tune_document", as_json=as_json)
    if report.best_recipe is not None:
        written.insert(0, Path(report.best_recipe))
    for path in written:
        typer.echo(f"wrote {path}", err=True)
    refuse_if_none(report)
    if report.best_recipe is not None and not as_json:
        from mptctl.cli.training_verbs import next_command

        typer.echo(
            next_command(["train-mpt", "--recipe", report.best_recipe], request.split.run_root), err=True
        )


def say_what_would_be_done(inputs: Inputs, request: TuneRequest) -> None:
    from mptctl.cli.training_verbs import describe
    from mptctl.report.media.numbers import duration
    from mptctl.tune.dry_run import dry_run

    plan = dry_run(request)
    plan = plan.model_copy(update={"first": inputs.named(plan.first)})
    if inputs.flags.as_json:
        typer.echo(plan.model_dump_json())
        return
    if plan.names is None:
        typer.echo(f"{plan.trials} trials, chosen as they go")
    else:
        typer.echo(f"{plan.trials} trials: {', '.join(plan.names)}")
    if plan.lockstep > 1:
        typer.echo(
            f"{plan.lockstep} of them at a time go in lock-step in one process: about "
            f"{duration(plan.process_seconds)} and {plan.process_mb:,.0f} MB of memory without pictures"
        )
    each = "process" if plan.lockstep > 1 else "of them"
    typer.echo(
        f"each {each} takes {plan.cpus_per_trial} CPU and {plan.gpus_per_trial:g} GPU, for "
        f"{request.recipe.optim.epochs} epochs; the first of them:"
    )
    typer.echo("\n".join(describe(plan.first)))
    typer.echo("nothing was written")
