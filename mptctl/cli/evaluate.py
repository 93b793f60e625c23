"""`mptctl evaluate`: measure what a replacement breaks, and gate its release."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

import typer

from mptctl.cli.evaluate_flags import AloneFlags, EvaluateFlags, OutputFlags
from mptctl.cli.flag_records import with_flags
from mptctl.cli.json_models import prints
from mptctl.errors import UsageError
from mptctl.evaluation.reading.readers import SUFFIXES

MODEL = f"run name, run folder, .pt or .onnx, or predictions ({SUFFIXES}: file, pattern, or folder of parts)"
# Parameters that go with one model alone, with one new model, and with any number of models.
ALONE = {field.name for field in fields(AloneFlags)}
OF_ONE_UPDATE = {field.name for field in fields(OutputFlags)}
ALWAYS = {"old", "news", "run_root", "data_root", "as_json", "report", "device", "full"}


@prints(
    {
        "--json": "mptctl.evaluation.flip_report:FlipReport",
        "OLD NEW1 NEW2 ... --json": "mptctl.evaluation.flip_report:FlipReports",
        "MODEL --json": "mptctl.evaluation.calibration.report:CalibrationReport",
    }
)
@with_flags
def evaluate(
    context: typer.Context,
    old: Annotated[str, typer.Argument(metavar="OLD", help=f"The model in production: {MODEL}.")],
    news: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NEW...",
            help="Its replacement, in the same forms; or several. Without NEW, OLD is measured alone.",
            show_default=False,
        ),
    ] = None,
    *,
    flags: EvaluateFlags,
) -> None:
    """Show what a replacement breaks, and gate its release.

    Prints the flip table over test samples of the old classes; with several NEW, one row and one verdict
    for each. With one model alone: accuracy, calibration errors, likelihood and Brier score over test
    samples of the classes that it knows.

    Exits with 3 where a limit is exceeded, where the rate that it limits is not defined, or where
    --confidence leaves it undecided (unless --undecided pass); with any limit also where OLD and NEW are
    the same model, where one of them comes from an unfinished run, where OLD is right by no more than
    chance, or where its class names are exchanged.
    Where OLD does not say which classes it knows, the labels that it predicts count as old.

    Examples:

        mptctl evaluate old mpt-kl --max-nfr 2 --report flips.html

        mptctl evaluate old.npz new.csv --max-nfr 2 --confidence 0.95 --json

        mptctl evaluate old.npz new.csv --by country --metadata meta.csv

        mptctl evaluate old no-treatment mpt-kl mpt-lm --max-nfr 2

        mptctl evaluate mpt-kl --temperature fit --report calibration.html
    """
    _refuse_flags(context, len(news or ()))
    if news:
        from mptctl.cli.runners.evaluate import evaluate_updates

        evaluate_updates(old, news, flags)
    else:
        from mptctl.cli.runners.evaluate_one import evaluate_one

        evaluate_one(old, flags)


def _refuse_flags(context: typer.Context, replacements: int) -> None:
    """Refuse a flag on the command line that does not go with the number of replacements that are given.

    Raises:
        UsageError: there is such a flag; the message names it.
    """
    for param in context.command.params:
        name = param.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        if not replacements and name not in ALONE | ALWAYS:
            raise UsageError(f"{param.opts[0]}: is for a comparison; name NEW, the replacement, as well")
        if replacements and name in ALONE:
            raise UsageError(f"{param.opts[0]}: is for one model alone; name OLD or NEW alone")
        if replacements > 1 and name in OF_ONE_UPDATE:
            raise UsageError(
                f"{param.opts[0]}: is for one NEW, and {replacements} are given; evaluate one at a time"
            )
