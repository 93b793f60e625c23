"""Flags of `evaluate`; `gate init` shares the flags on what is compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from mptctl.cli import options as opt
from mptctl.cli.flag_records import percent
from mptctl.names import SortKey, TrackerName

LIMITS, COMPARED, SLICES = "More limits", "What is compared", "Slices"
OUTPUT, TABLES, ALONE = "More output", "Tables and memory", "One model alone"


@dataclass(frozen=True, kw_only=True)
class LimitFlags:
    """The release gate."""

    gate_file: Annotated[
        Path | None,
        typer.Option(
            "--gate",
            metavar="FILE",
            help="Limits, slices, samples that must not flip, and waivers, as YAML; `mptctl gate init` "
            "writes one.",
        ),
    ] = None
    max_nfr: Annotated[float | None, percent("--max-nfr", "Largest negative flip rate.")] = None
    max_lost: Annotated[
        float | None, percent("--max-lost", "Largest part of OLD's right predictions that NEW gets wrong.")
    ] = None
    max_rel_nfr: Annotated[
        float | None, percent("--max-rel-nfr", "Largest Rel-NFR.", high=None, panel=LIMITS)
    ] = None
    max_er_increase: Annotated[
        float | None,
        percent(
            "--max-er-increase",
            "Largest increase of error on old classes, in points.",
            low=-100.0,
            panel=LIMITS,
        ),
    ] = None
    confidence: Annotated[
        float | None,
        typer.Option(
            "--confidence",
            metavar="LEVEL",
            help="Decide by the two-sided interval at this level, 0.5 to below 1: pass, fail or undecided; "
            "default: by the value.",
        ),
    ] = None
    undecided: Annotated[
        Literal["fail", "pass"],
        typer.Option(
            "--undecided",
            help="Verdict where the interval contains the limit; fail beside --gate.",
            rich_help_panel=LIMITS,
        ),
    ] = "fail"
    allow_identical: Annotated[
        bool,
        typer.Option(
            "--allow-identical",
            help="Do not fail when OLD and NEW are the same model; not beside --gate.",
            rich_help_panel=LIMITS,
        ),
    ] = False
    allow_unfinished: Annotated[
        bool,
        typer.Option(
            "--allow-unfinished",
            help="Do not fail when a model comes from an unfinished run; not beside --gate.",
            rich_help_panel=LIMITS,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ComparedFlags:
    """The classes and the parts of the test set that two models are compared on."""

    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="COLUMN",
            help="Flips by a column of --metadata, OLD, NEW or the split's table; by class; "
            "by confidence of OLD; by size of a run's pictures; a,b crosses two. Repeatable.",
        ),
    ] = None
    metadata: Annotated[
        Path | None,
        typer.Option(
            "--metadata",
            metavar="FILE",
            help="Columns of the samples by `id`, in a form that predictions have.",
            rich_help_panel=SLICES,
        ),
    ] = None
    old_classes: Annotated[
        str | None,
        typer.Option(
            "--old-classes",
            metavar="FILE|all",
            help="Old class labels, one a line, or `all` for all labels; default: what OLD knows. Not beside "
            "--gate, whose file has `old_classes`.",
        ),
    ] = None
    class_map: Annotated[
        Path | None,
        typer.Option(
            "--class-map",
            metavar="FILE",
            help="Classes renamed, merged or split from OLD to NEW: .yaml (old: new) or .csv (columns old, "
            "new).",
            rich_help_panel=COMPARED,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """The files and tables of a comparison with one new model."""

    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="Write one HTML page."),
    ] = None
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures", metavar="DIR", help="Write the figures as PNG and SVG.", rich_help_panel=OUTPUT
        ),
    ] = None
    markdown: Annotated[
        str | None,
        typer.Option(
            "--markdown",
            metavar="FILE",
            help="Write Markdown for a pull request; - prints it instead of the table.",
        ),
    ] = None
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit",
            metavar="FILE.xml",
            help="Write the gate as JUnit XML, one test a limit.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    github: Annotated[
        bool,
        typer.Option(
            "--github",
            help="Annotate a GitHub workflow: the verdict, each limit that did not pass, and notes, on "
            "standard error.",
            rich_help_panel=OUTPUT,
        ),
    ] = False
    append_history: Annotated[
        Path | None,
        typer.Option(
            "--append-history",
            metavar="FILE.jsonl",
            help="Add this comparison to a file, one line a release; `mptctl history` shows it.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    tag: Annotated[
        str | None,
        typer.Option(
            "--tag",
            metavar="TEXT",
            help="Name of the release in --append-history. (default: the git commit of this folder)",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    flips: Annotated[
        Path | None,
        typer.Option(
            "--flips",
            metavar="FILE.csv",
            help="Write every negative flip, also those that must not be, as a CSV table.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    save_predictions: Annotated[
        Path | None,
        typer.Option(
            "--save-predictions",
            metavar="DIR",
            help="Write both models' predictions as old.npz and new.npz, which evaluate reads, "
            "again with --class-map if it was given.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    gallery: Annotated[
        int,
        typer.Option(
            "--gallery", metavar="N", min=0, help="Flipped pictures to show.", rich_help_panel=OUTPUT
        ),
    ] = 24
    log: Annotated[
        list[TrackerName] | None,
        typer.Option(
            "--log",
            metavar="TRACKER",
            help="Log rates, report and flips to mlflow, wandb or tensorboard. Repeatable.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    sort: Annotated[SortKey, typer.Option("--sort", help="Order of the classes.", rich_help_panel=TABLES)] = (
        "flips"
    )
    full: Annotated[
        bool, typer.Option("--full", help="Show all tables: classes, predictions, calibration.")
    ] = False
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            metavar="N",
            min=0,
            help="Show all tables, each with at most N rows; 0: all rows. (default: 10)",
            rich_help_panel=TABLES,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AloneFlags:
    """The measurement of one model alone."""

    temperature: Annotated[
        Literal["fit"] | None,
        typer.Option(
            "--temperature",
            help="One model: fit a temperature on the validation part, and show figures with it.",
            rich_help_panel=ALONE,
        ),
    ] = None
    validation: Annotated[
        str | None,
        typer.Option(
            "--validation",
            metavar="FILE",
            help="Predictions to fit the temperature on; default: those of the run's validation part.",
            rich_help_panel=ALONE,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class EvaluateFlags:
    """All flags of `evaluate`."""

    run_root: opt.RunRoot = Path("runs")
    data_root: Annotated[
        Path | None,
        typer.Option(
            "--data-root",
            metavar="DIR",
            help="Folder of the pictures: of a run's split, where they have moved since; of predictions "
            "files, if their ids are paths below it.",
        ),
    ] = None
    limits: LimitFlags
    compared: ComparedFlags
    min_slice: Annotated[
        int,
        typer.Option(
            "--min-slice",
            metavar="N",
            min=1,
            help="Smaller slices are counted, not ranked.",
            rich_help_panel=SLICES,
        ),
    ] = 30
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="MODEL",
            help="Plain comparison: a plain update, shifted to NEW's error; the shift is read off the test "
            "part.",
            rich_help_panel=COMPARED,
        ),
    ] = None
    as_json: opt.Json = False
    output: OutputFlags
    alone: AloneFlags
    memory_limit: Annotated[
        str | None,
        typer.Option(
            "--memory-limit",
            metavar="SIZE",
            help="Memory for pairing, such as 2GB; the rest goes to disk. (default: 2GB, or half of what is "
            "free)",
            rich_help_panel=TABLES,
        ),
    ] = None
    device: opt.ModelDevice = "auto"
