"""`mptctl evaluate`: what a replacement breaks, and whether it may be released."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints

if TYPE_CHECKING:
    from mptctl.evaluation.flip_report import FlipReport
    from mptctl.inference.named_models import Answers

MODEL = "run name, run folder, .pt file, or predictions file (.npz, .csv, .parquet)"


class Sort(StrEnum):
    """Columns that classes can be sorted by."""

    flips = "flips"
    nfr = "nfr"
    error = "error"
    name = "name"


def _percent(flag: str, text: str, low: float = 0.0, high: float | None = 100.0) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        flag, metavar="PCT", min=low, max=high, help=text, rich_help_panel="Release gate"
    )
    return option


@prints({"--json": "mptctl.evaluation.flip_report:FlipReport"})
def evaluate(
    old: Annotated[str, typer.Argument(metavar="OLD", help=f"The model in production: {MODEL}.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its replacement, in the same forms.")],
    run_root: opt.RunRoot = Path("runs"),
    max_nfr: Annotated[float | None, _percent("--max-nfr", "Largest negative flip rate.")] = None,
    max_lost: Annotated[
        float | None, _percent("--max-lost", "Largest part of OLD's right answers that NEW gets wrong.")
    ] = None,
    max_rel_nfr: Annotated[float | None, _percent("--max-rel-nfr", "Largest Rel-NFR.", high=None)] = None,
    max_er_increase: Annotated[
        float | None,
        _percent("--max-er-increase", "Largest increase of error on old classes, in points.", -100.0),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            "--confidence",
            metavar="LEVEL",
            help="The upper end of the interval at this level, 0.5 to below 1, must pass; default: the value.",
            rich_help_panel="Release gate",
        ),
    ] = None,
    allow_identical: Annotated[
        bool,
        typer.Option(
            "--allow-identical",
            help="Judge one and the same model too, which else fails every limit.",
            rich_help_panel="Release gate",
        ),
    ] = False,
    allow_unfinished: Annotated[
        bool,
        typer.Option(
            "--allow-unfinished",
            help="Judge models whose run was not finished too, which else fail every limit.",
            rich_help_panel="Release gate",
        ),
    ] = False,
    margin: Annotated[
        float | None, _percent("--margin", "Say whether NFR is below this: yes, no, undecided.")
    ] = None,
    old_classes: Annotated[
        Path | None,
        typer.Option(
            "--old-classes", metavar="FILE", help="Old class labels, one a line; default: what OLD knows."
        ),
    ] = None,
    noise_floor: Annotated[
        str | None,
        typer.Option(
            "--noise-floor", metavar="MODEL", help="Another training of OLD: what it flips is chance."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="MODEL", help="An untreated model: what a bias on it gets for free."
        ),
    ] = None,
    as_json: opt.Json = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE.html", help="Write one HTML page.", rich_help_panel="More output"
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures",
            metavar="DIR",
            help="Write the figures as PNG and SVG.",
            rich_help_panel="More output",
        ),
    ] = None,
    markdown: Annotated[
        str | None,
        typer.Option(
            "--markdown",
            metavar="FILE",
            help="Write Markdown for a pull request; - prints it instead of the table.",
            rich_help_panel="More output",
        ),
    ] = None,
    save_predictions: Annotated[
        Path | None,
        typer.Option(
            "--save-predictions",
            metavar="DIR",
            help="Write old.npz and new.npz, which evaluate takes.",
            rich_help_panel="More output",
        ),
    ] = None,
    gallery: Annotated[
        int,
        typer.Option(
            "--gallery", metavar="N", min=0, help="Flipped pictures to show.", rich_help_panel="More output"
        ),
    ] = 24,
    data_root: Annotated[
        Path | None,
        typer.Option(
            "--data-root",
            metavar="DIR",
            help="Folder of the pictures, where ids of predictions files are paths below it.",
            rich_help_panel="More output",
        ),
    ] = None,
    sort: Annotated[Sort, typer.Option("--sort", help="Order of the classes.")] = Sort.flips,
    rows: Annotated[
        int | None,
        typer.Option("--rows", metavar="N", min=0, help="Rows of each list; 0: all; default: what fits."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, hidden=True, help="Has no effect any more.")] = 0,
    device: Annotated[
        str, typer.Option("--device", metavar="NAME", help="Where models compute: auto, cpu, cuda or cuda:N.")
    ] = "auto",
) -> None:
    """Compare the model in production with its replacement, and gate the release.

    Prints the flip table over test samples of the old classes.

    Exits with 3 where a limit is exceeded or the rate that it limits is not defined; with any limit also where OLD and
    NEW are one model, where one of them is of an unfinished run, or where OLD is never right.

    Examples:

        mptctl evaluate old mpt-kl --max-nfr 2 --report flips.html

        mptctl evaluate old.npz new.csv --max-nfr 2 --confidence 0.95 --json
    """
    from mptctl.errors import GateFailed, UsageError
    from mptctl.evaluation.evaluate import compare
    from mptctl.evaluation.gate import Limits

    if as_json and markdown == "-":
        raise UsageError("--json and --markdown -: both print to standard output; give --markdown a file")
    _check_outputs(
        [old, new, noise_floor, baseline],
        run_root,
        old_classes,
        report,
        figures,
        markdown,
        save_predictions,
        prints=as_json,
    )
    limits = Limits(
        max_nfr=_fraction(max_nfr),
        max_lost=_fraction(max_lost),
        max_rel_nfr=_fraction(max_rel_nfr),
        max_er_increase=_fraction(max_er_increase),
        confidence=confidence,
        allow_identical=allow_identical,
        allow_unfinished=allow_unfinished,
    )
    names = _read_labels(old_classes) if old_classes is not None else None
    others = [model for model in (noise_floor, baseline) if model is not None]
    answers = _answers([old, new, *others], run_root, device)
    models = list(answers.models[2:])
    result = compare(
        answers.models[0],
        answers.models[1],
        old_classes=names,
        noise_floor=models.pop(0) if noise_floor is not None else None,
        baseline=models.pop(0) if baseline is not None else None,
        limits=limits,
        margin=_fraction(margin),
        worst=gallery,
        identical=answers.identical,
        unfinished=[sentence for sentence in answers.unfinished[:2] if sentence],
    )
    notes = [*answers.warnings, *(sentence for sentence in answers.unfinished[2:] if sentence)]
    result = result.model_copy(update={"warnings": [*notes, *result.warnings]})
    _write(result, answers, report, figures, markdown, save_predictions, data_root)
    if as_json:
        typer.echo(result.model_dump_json())
    elif markdown == "-":
        from mptctl.report.flips_markdown import render_markdown

        typer.echo(render_markdown(result), nl=False)
    else:
        from rich.console import Console

        from mptctl.report.flips_terminal import print_report

        print_report(result, Console(), sort.value, rows)
    failed = [check for check in result.gate.checks if not check.passed]
    if failed:
        reasons = [c.message if c.limit is None else f"--{c.name}: {c.message}" for c in failed]
        raise GateFailed(f"gate failed: {'; '.join(reasons)}")


def _fraction(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _read_labels(path: Path) -> list[str]:
    from mptctl.errors import UsageError

    try:
        labels = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--old-classes {path}: cannot be read ({error}); write one label a line") from error
    if not any(labels):
        raise UsageError(f"--old-classes {path}: names no class; write one label a line")
    return [label for label in labels if label]


def _answers(names: list[str], run_root: Path, device: str) -> Answers:
    from mptctl.inference.named_models import load_predictions
    from mptctl.report.progress_bars import progress_bars

    with progress_bars() as progress:
        return load_predictions(names, run_root, device, progress)


def _check_outputs(
    models: list[str | None],
    run_root: Path,
    old_classes: Path | None,
    report: Path | None,
    figures: Path | None,
    markdown: str | None,
    save_predictions: Path | None,
    *,
    prints: bool,
) -> None:
    """Refuse outputs that would destroy what is read, or each other, before anything is computed."""
    from mptctl.cli.outputs import FIGURES, PREDICTIONS, Outputs, read_for_models

    outputs = Outputs()
    outputs.file("--report", report)
    outputs.folder("--figures", figures, FIGURES)
    outputs.file("--markdown", None if markdown in (None, "-") else Path(str(markdown)))
    outputs.folder("--save-predictions", save_predictions, PREDICTIONS)
    inputs = read_for_models(models, run_root)
    outputs.check([*inputs, old_classes] if old_classes else inputs, prints=prints or markdown == "-")


def _write(
    result: FlipReport,
    answers: Answers,
    report: Path | None,
    figures: Path | None,
    markdown: str | None,
    save_predictions: Path | None,
    data_root: Path | None,
) -> None:
    """Write the files that were asked for, and say on standard error what was written."""
    from mptctl.files import writing

    written: list[Path] = []
    if save_predictions is not None:
        from mptctl.evaluation.predictions import save_predictions as save

        for name, model in zip(("old", "new"), answers.models, strict=False):
            save(model, save_predictions / f"{name}.npz")
            written.append(save_predictions / f"{name}.npz")
    if report is not None:
        from mptctl.report.flips_page import render_html
        from mptctl.report.gallery import pictures_below

        picture = None
        if data_root is not None:
            picture = pictures_below(data_root)
        elif answers.split is not None:
            from mptctl.inference.predict import image_reader

            picture = image_reader(answers.split)
        page = render_html(result, picture)
        with writing(report) as stream:
            stream.write(page.encode())
        written.append(report)
    if figures is not None:
        from mptctl.report.flips_figures import save_figures

        written += save_figures(result, figures)
    if markdown is not None and markdown != "-":
        from mptctl.report.flips_markdown import render_markdown

        with writing(Path(markdown)) as stream:
            stream.write(render_markdown(result).encode())
        written.append(Path(markdown))
    for path in written:
        typer.echo(f"wrote {path}", err=True)
