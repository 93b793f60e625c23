"""`mptctl evaluate`: what a replacement breaks, and whether it may be released."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import evaluate_one as one
from mptctl.cli import gate_flags as gate
from mptctl.cli import options as opt
from mptctl.cli import report_flags as out
from mptctl.cli import slice_flags as slices
from mptctl.cli.evaluate_many import conclude_updates, refuse_flags
from mptctl.cli.flip_outputs import (
    check_outputs,
    log_flips,
    print_annotations,
    print_comparison,
    write_comparison,
)
from mptctl.cli.json_models import prints
from mptctl.cli.old_classes_flag import OldClasses, old_classes_file, read_old_classes
from mptctl.evaluation.reading.readers import SUFFIXES
from mptctl.names import LOGGED_FLIPS, Session, SortKey

if TYPE_CHECKING:
    from mptctl.evaluation.flip_report import FlipReport
    from mptctl.evaluation.limits import Limits

TABLES = "Tables and memory"
MODEL = f"run name, run folder, .pt or .onnx, or predictions ({SUFFIXES}: file, pattern, or folder of parts)"


@prints(
    {
        "--json": "mptctl.evaluation.flip_report:FlipReport",
        "OLD NEW1 NEW2 ... --json": "mptctl.evaluation.flip_report:FlipReports",
        "MODEL --json": "mptctl.evaluation.calibration.report:CalibrationReport",
    }
)
@gate.limit_flags
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
    run_root: opt.RunRoot = Path("runs"),
    gate_file: gate.GateFile = None,
    limits: dict[str, float] | None = None,
    confidence: gate.Confidence = None,
    undecided: gate.Undecided = "fail",
    allow_identical: gate.AllowIdentical = False,
    allow_unfinished: gate.AllowUnfinished = False,
    by: slices.By = None,
    metadata: slices.Metadata = None,
    superclasses: slices.Superclasses = None,
    min_slice: slices.MinSlice = 30,
    fdr: slices.Fdr = "bh",
    weight: slices.Weight = None,
    nfr_margin: gate.NfrMargin = None,
    margin: gate.FormerMargin = None,
    old_classes: OldClasses = None,
    class_map: slices.ClassMapFile = None,
    noise_floor: Annotated[
        str | None,
        typer.Option(
            "--noise-floor",
            metavar="MODEL",
            help="The old model trained again: what it flips is retraining noise.",
            rich_help_panel=slices.COMPARED,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="MODEL",
            help="Plain comparison: a plain update, shifted to NEW's error; the shift is read off the test part.",
            rich_help_panel=slices.COMPARED,
        ),
    ] = None,
    as_json: opt.Json = False,
    report: out.Report = None,
    figures: out.Figures = None,
    markdown: out.Markdown = None,
    junit: out.Junit = None,
    github: out.Github = False,
    append_history: out.AppendHistory = None,
    save_predictions: out.SavePredictions = None,
    gallery: out.Gallery = 24,
    log: out.Log = None,
    data_root: out.DataRoot = None,
    sort: Annotated[
        SortKey, typer.Option("--sort", help="Order of the classes.", rich_help_panel=TABLES)
    ] = "flips",
    full: Annotated[
        bool, typer.Option("--full", help="Show all tables: classes, predictions, causes, calibration.")
    ] = False,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            metavar="N",
            min=0,
            help="Show all tables, each with at most N rows; 0: all rows. (default: 10)",
            rich_help_panel=TABLES,
        ),
    ] = None,
    temperature: one.Fit = None,
    validation: one.Validation = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            "--memory-limit",
            metavar="SIZE",
            help="Memory for pairing, such as 2GB; the rest goes to disk. (default: 2GB, or half of what is free)",
            rich_help_panel=TABLES,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, hidden=True, help="Has no effect any more.")] = 0,
    device: opt.ModelDevice = "auto",
) -> None:
    """Show what a replacement breaks, and gate its release.

    Prints the flip table over test samples of the old classes; with several NEW, one row and one verdict
    for each. With one model alone: accuracy, calibration errors, likelihood and Brier score over test
    samples of the classes that it knows.

    Exits with 3 where a limit is exceeded, where the rate that it limits is not defined, or where
    --confidence leaves it undecided (unless --undecided pass); with any limit also where OLD and NEW are
    the same model, where one of them comes from an unfinished run, or where OLD is never right.
    Where OLD does not say which classes it knows, limits must also be kept without the labels that it
    never predicts.

    Examples:

        mptctl evaluate old mpt-kl --max-nfr 2 --report flips.html

        mptctl evaluate old.npz new.csv --max-nfr 2 --confidence 0.95 --json

        mptctl evaluate old.npz new.csv --by country --metadata meta.csv

        mptctl evaluate old no-treatment mpt-kl mpt-lm --max-nfr 2

        mptctl evaluate mpt-kl --temperature fit --report calibration.html
    """
    refuse_flags(context, replacements=len(news or ()))
    if not news:
        one.evaluate_one(
            old,
            Session(run_root, device),
            temperature=temperature,
            validation=validation,
            as_json=as_json,
            report=report,
            full=full,
        )
        return
    import signal

    from mptctl.errors import Stopped
    from mptctl.evaluation.evaluate import compare
    from mptctl.evaluation.gate.gate_file import read_gate_file
    from mptctl.evaluation.gate.rules import today_in_utc
    from mptctl.evaluation.limits import Limits
    from mptctl.evaluation.pairing.class_map import read_class_map
    from mptctl.evaluation.reading.workspace import parse_size, workspace
    from mptctl.evaluation.slices.derived_columns import read_superclasses
    from mptctl.evaluation.slices.ranking import SliceRequest
    from mptctl.inference.named_models import load_updates
    from mptctl.inference.picture_sizes import lazy_picture_sizes
    from mptctl.machine.signals import StopRequest, interruptible
    from mptctl.report.documents.flip_list import MOST_FLIPS
    from mptctl.report.documents.flips_files import FlipFiles
    from mptctl.report.media.progress_bars import showing_progress
    from mptctl.report.media.provenance import Gathering
    from mptctl.report.trackers.tracker import require_trackers

    trackers = require_trackers(log)
    names = {"old": old, "noise_floor": noise_floor, "baseline": baseline}
    given = {role: name for role, name in names.items() if name is not None}
    markdown_file = None if markdown in (None, "-") else Path(str(markdown))
    files = FlipFiles(report, figures, markdown_file, save_predictions, junit, append_history)
    check_outputs(
        files,
        [*given.values(), *news],
        run_root,
        [old_classes_file(old_classes), metadata, gate_file, class_map, superclasses],
        as_json,
        markdown == "-",
    )
    asked = Limits(
        **(limits or {}),
        confidence=confidence,
        undecided=undecided,
        allow_identical=allow_identical,
        allow_unfinished=allow_unfinished,
    )
    rules = read_gate_file(gate_file) if gate_file is not None else None
    mapped = read_class_map(class_map) if class_map is not None else None
    keys = slices.columns(by)
    if rules is None:
        _refuse_flags_without_use(asked, keys, metadata if weight is None else None, superclasses)
    above = read_superclasses(superclasses) if superclasses is not None else None
    labels = read_old_classes(old_classes)
    memory = None if memory_limit is None else parse_size(memory_limit, "--memory-limit")
    # In a pipe nothing is said of rows: a log of pictures is worth a line each half minute, one of rows is not.
    watched = sys.stderr is not None and sys.stderr.isatty()
    worst = max(gallery, LOGGED_FLIPS if trackers else 0, MOST_FLIPS if report is not None else 0)
    stop, today = StopRequest(), today_in_utc()
    results: dict[str, FlipReport] = {}
    try:
        with (
            interruptible(stop),
            showing_progress(Session(run_root, device)) as session,
            workspace(memory, session.progress if watched else None),
        ):
            updates = load_updates(
                given,
                news,
                session,
                part="test",
                renamed=frozenset() if mapped is None else frozenset(mapped.old),
            )
            pictures = lazy_picture_sizes(
                next((found for found in updates if found.split), updates[0]), session.progress
            )
            for new, found in zip(news, updates, strict=True):
                sources = None if report is None else Gathering(found, sys.argv, today)
                whole = compare(
                    **found.models,
                    old_classes=labels,
                    limits=asked,
                    class_map=mapped,
                    slicing=SliceRequest(
                        keys, slices.files(found.models, metadata), min_slice, fdr, above, pictures
                    ),
                    weight=weight,
                    gate_file=rules,
                    today=today,
                    nfr_margin=_fraction(margin if nfr_margin is None else nfr_margin),
                    worst=worst,
                    validation=found.validation,
                    identical=found.identical,
                    unfinished=found.unfinished,
                    warnings=found.warnings,
                )
                if found.split is not None:
                    whole = whole.model_copy(update={"class_labels": found.split.file.class_labels or {}})
                if trackers:
                    log_flips(whole, trackers, new, run_root)
                results[new] = result = whole.model_copy(update={"worst_flips": whole.worst_flips[:gallery]})
                # Of several updates none is written: `refuse_flags` saw to that.
                write_comparison(files, result, whole.worst_flips, found, data_root, sources, today)
    except KeyboardInterrupt as error:
        raise Stopped("stopped", stop.signum or signal.SIGINT) from error
    if len(results) > 1:
        conclude_updates(results, as_json)
        return
    print_comparison(result, as_json, markdown == "-", sort, rows, full)
    if github:
        print_annotations(result)
    result.gate.require_passed()


def _refuse_flags_without_use(
    limits: Limits, keys: Sequence[Sequence[str]], metadata: Path | None, superclasses: Path | None
) -> None:
    """UsageError where a flag has nothing that it is for; without a gate file, which may need each of them."""
    from mptctl.errors import UsageError

    if limits.confidence is not None and not limits.given():
        raise UsageError(
            f"--confidence {limits.confidence:g}: says how sure a limit must be; give one, such as --max-nfr 2"
        )
    if metadata is not None and not keys:
        raise UsageError("--metadata: is for --by or --gate; name a column of it, such as --by country")
    if superclasses is not None and not any("superclass" in key for key in keys):
        raise UsageError("--superclasses: is for --by superclass or --gate; give one of them")


def _fraction(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
