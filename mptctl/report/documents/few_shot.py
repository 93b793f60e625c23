"""What `fewshot` says to a person."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from mptctl.inference.discriminability import SHOTS, Discriminability, Spread
from mptctl.inference.few_shot import FewShotReport
from mptctl.report.media.tables import make_table, words


def print_few_shot(report: FewShotReport, console: Console) -> None:
    """A row for each classifier, with what its accuracy is of."""
    console.print(
        f"{report.episodes:,} episodes of {report.way} out of {len(report.novel)} novel classes, {report.shot} shot, "
        f"{report.query} queries a class, seed {report.seed}; {report.seconds:.1f} s"
    )
    table = make_table(console, "classifier", "accuracy", "95 % interval")
    rows = (
        (f"fitted {report.head} head", report.accuracy, report.ci95),
        ("nearest centroid", report.centroid.accuracy, report.centroid.ci95),
        ("logistic regression", report.logistic.accuracy, report.logistic.ci95),
    )
    for name, accuracy, half in rows:
        interval = "n/a" if half is None else f"± {100 * half:.2f} points"
        table.add_row(name, f"{100 * accuracy:.2f} %", interval)
    console.print(table)


def print_discriminability(runs: Sequence[Discriminability], console: Console) -> None:
    """A row for each run: accuracy on base and novel classes, and variance between over within classes."""
    shots = [f"{shot} shot" for shot in SHOTS]
    table = make_table(
        console, "run", "head", "margin", "base", *shots, "variance", "novel",
        left=("head",), spare=("head", "margin", "variance", "novel"),
    )  # fmt: skip
    for run in runs:
        novel = [run.novel_accuracy.get(shot) for shot in SHOTS]
        cells = ["n/a" if score is None else f"{100 * score.accuracy:.1f} %" for score in novel]
        base = f"{100 * run.base_accuracy:.1f} %"
        table.add_row(
            words(run.run), run.head, f"{run.margin:g}", base, *cells, _ratio(run.base), _ratio(run.novel)
        )
    console.print(table)
    console.print(
        "accuracy on base classes, and on novel ones by pictures shown; variance between over within base classes, and "
        "novel ones",
        highlight=False,
    )


def _ratio(spread: Spread | None) -> str:
    return "n/a" if spread is None or spread.ratio is None else f"{spread.ratio:.3f}"
