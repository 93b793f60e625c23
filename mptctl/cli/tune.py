"""`mptctl tune`: find k, and more, on held-out data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptctl.cli import options as opt
from mptctl.cli.budget import (
    budget_of_flags,
    refuse_confidence_without_budget,
    refuse_floor_without_budget,
    warn_of_chance,
)
from mptctl.cli.json_models import prints
from mptctl.cli.training_flags import TrainingFlags, training_flags
from mptctl.cli.training_verbs import method_keys, read_inputs
from mptctl.cli.tune_outputs import check_outputs, say_what_would_be_done, search_and_print
from mptctl.names import Search, Session

if TYPE_CHECKING:
    from mptctl.evaluation.bias.choice import Budget

SPACE, CHOICE, WHERE = "What is searched", "What is chosen", "Where it runs"


def _axis(flag: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        flag,
        metavar="VALUES",
        help=f"{text}: values as 0,1,4, or a range as 0:8 (random, optuna).",
        rich_help_panel=SPACE,
    )
    return option


@prints(
    {"--json": "mptctl.tune.tune_report:TuneReport", "--dry-run --json": "mptctl.tune.dry_run:TuneDryRun"}
)
@training_flags()
def tune(
    flags: TrainingFlags,
    k: Annotated[
        str | None,
        typer.Option(
            "--k",
            metavar="VALUES",
            help="Bias k, added to the new classes' logits in training: values, or a range as 0:8 (random, optuna). "
            "(default: 0,0.5,1,1.5,2,4,8, or 0:8)",
            rich_help_panel=SPACE,
        ),
    ] = None,
    distance: Annotated[
        str | None,
        typer.Option(
            "--distance",
            metavar="VALUES",
            help="Distance to the teachers: kl (KL divergence), lm (logit matching), or kl,lm. "
            "(default: the recipe's, or kl)",
            rich_help_panel=SPACE,
        ),
    ] = None,
    lam: Annotated[str | None, _axis("--lam", "Weight of each distillation")] = None,
    alpha: Annotated[str | None, _axis("--alpha", "Focal weight of every sample")] = None,
    beta: Annotated[str | None, _axis("--beta", "Focal weight added where the teacher is right")] = None,
    tau: Annotated[str | None, _axis("--tau", "Temperature of the KL distance")] = None,
    lr: Annotated[str | None, _axis("--lr", "Learning rate")] = None,
    search: Annotated[
        Search, typer.Option("--search", help="How values are combined.", rich_help_panel=SPACE)
    ] = "grid",
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            metavar="N",
            min=1,
            help="Trials of a random or optuna search. (default: 8)",
            rich_help_panel=SPACE,
        ),
    ] = None,
    asha: Annotated[
        bool,
        typer.Option(
            "--asha", help="Stop poor trials early, by their validation NFR.", rich_help_panel=SPACE
        ),
    ] = False,
    max_er_increase: Annotated[
        float | None,
        typer.Option(
            "--max-er-increase",
            metavar="POINTS",
            min=-100.0,
            max=100.0,
            help="Largest increase of validation error above the reference's, in points. (default: 0.5)",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    max_nfr: Annotated[
        float | None,
        typer.Option(
            "--max-nfr",
            metavar="PCT",
            help="Largest NFR, in place of --max-er-increase: of the trials shown to keep it, the lowest error.",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            "--confidence",
            help="Level of the two-sided interval of NFR whose upper end must keep --max-nfr. (default: 0.95)",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    noise_floor: opt.NoiseFloor = None,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="ADDRESS",
            help="A Ray cluster that sees the same files. (default: this machine alone)",
            rich_help_panel=WHERE,
        ),
    ] = None,
    gpus_per_trial: Annotated[
        float | None,
        typer.Option(
            "--gpus-per-trial",
            metavar="N",
            min=0.0,
            help="May be a fraction, which shares a GPU. (default: 1 on a GPU, else 0)",
            rich_help_panel=WHERE,
        ),
    ] = None,
    cpus_per_trial: Annotated[
        int,
        typer.Option(
            "--cpus-per-trial", metavar="N", min=1, help="Threads of a trial.", rich_help_panel=WHERE
        ),
    ] = 1,
    max_concurrent: Annotated[
        int | None,
        typer.Option(
            "--max-concurrent",
            metavar="N",
            min=1,
            help="Most trials at once. (default: as many as fit)",
            rich_help_panel=WHERE,
        ),
    ] = None,
    lockstep: Annotated[
        int,
        typer.Option(
            "--lockstep",
            metavar="N",
            min=1,
            help="Trials or updates that one process trains in turn, on the same batches and teacher predictions.",
            rich_help_panel=WHERE,
        ),
    ] = 1,
    cache_teachers: Annotated[
        bool,
        typer.Option(
            "--cache-teachers/--no-cache-teachers",
            help="Compute teacher logits once and share them between trials.",
            rich_help_panel=WHERE,
        ),
    ] = True,
    old: opt.Old = "old",
    ref: opt.Refs = None,
) -> None:
    """Search k on held-out samples; write the chosen recipe.

    Chooses the lowest NFR among the trials whose validation error is at most the reference's plus
    --max-er-increase; with --max-nfr the lowest error among the trials that keep that budget of flips. The
    test set is not read. Writes `tune/best.yaml`, `tune/trials.json`, `tune/tune.png`, `tune/tune.html`,
    and a run folder for each trial below `tune/trials`.

    Exits with 3, and writes no recipe, where no trial keeps the limit.

    Examples:

        mptctl tune

        mptctl tune --k 0,1,2,4 --distance kl,lm --max-er-increase 1

        mptctl tune --max-nfr 2

        mptctl tune --lockstep 4 --no-cache-teachers

        mptctl tune --search optuna --trials 30 --k 0:8 --lr 0.01:0.2 --asha

        mptctl train-mpt --recipe runs/tune/best.yaml
    """
    from mptctl.cli.train_mpt import method_with
    from mptctl.errors import UsageError

    if trials is not None and search == "grid":
        raise UsageError("--trials: a grid has as many trials as its values; give --search random or optuna")
    given = {"distance": distance, "k": k, "lam": lam, "alpha": alpha, "beta": beta, "tau": tau, "lr": lr}
    axes = _axes(given, search)
    budget = _budget(max_er_increase, max_nfr, confidence, noise_floor)
    inputs = read_inputs(flags)
    from mptctl.models.ownership import run_folder

    folder = run_folder(flags.run_root, "tune" if flags.name is None else flags.name)
    check_outputs(
        flags.run_root / (flags.name or "tune"), flags.run_root, flags.recipe, [old, *(ref or ["ref"])]
    )
    keys = method_keys(method_with(None, inputs.recipe)) | {"runtime.cache_teachers": cache_teachers}
    recipe = inputs.with_keys(keys)
    if flags.print_recipe:
        typer.echo(recipe.to_yaml(), nl=False)
        return
    from mptctl.models.run_folder import find_checkpoint, find_references

    old_checkpoint = find_checkpoint(old, flags.run_root)
    references = find_references(ref or ["ref"], flags.run_root)
    # Here, because it takes seconds to import.
    from mptctl.machine.device import choose_device
    from mptctl.tune.request import TuneRequest

    if gpus_per_trial is None:
        gpus_per_trial = 1.0 if choose_device(recipe.runtime.device).type == "cuda" else 0.0
    request = TuneRequest(
        recipe=recipe,
        split=inputs.split,
        folder=folder,
        old=old_checkpoint,
        refs=references,
        axes=axes,
        search=search,
        trials=trials or 8,
        asha=asha,
        budget=budget,
        ray_address=ray_address,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        max_concurrent=max_concurrent,
        lockstep=lockstep,
        resume=flags.resume,
        overwrite=flags.overwrite,
    )
    if flags.dry_run:
        say_what_would_be_done(inputs, request)
        return
    warn_of_chance(budget, old, noise_floor, Session(flags.run_root, recipe.runtime.device))
    search_and_print(request, flags.as_json)


def _budget(
    max_er_increase: float | None, max_nfr: float | None, confidence: float | None, noise_floor: str | None
) -> Budget:
    """What the choice has to keep to; half a point of error without a flag."""
    refuse_confidence_without_budget(confidence, max_nfr)
    refuse_floor_without_budget(noise_floor, max_nfr)
    if max_nfr is None and max_er_increase is None:
        max_er_increase = 0.5
    budget = budget_of_flags(max_nfr, max_er_increase, 0.95 if confidence is None else confidence)
    assert budget is not None
    return budget


def _axes(flags: dict[str, str | None], search: Search) -> Any:
    from mptctl.tune.space import DEFAULT_K, parse_axis

    given = {name: text for name, text in flags.items() if text is not None}
    given.setdefault("k", DEFAULT_K[search])
    return tuple(parse_axis(name, given[name], search) for name in flags if name in given)
