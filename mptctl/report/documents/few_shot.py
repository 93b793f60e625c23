"""Make the documents of `fewshot`: accuracy over episodes, and how far features keep classes apart."""

from __future__ import annotations

from functools import partial

from mptctl.inference.discriminability import SHOTS, Discriminability, DiscriminabilityReport
from mptctl.inference.few_shot import FewShotReport, Score
from mptctl.report.media.document import Column, Document, Note, Table
from mptctl.report.media.numbers import NOT_DEFINED, number, percent


def few_shot_document(report: FewShotReport) -> Document:
    """The document of few-shot episodes: their number and kind, then the accuracy of each classifier."""
    setting = (
        f"{report.episodes:,} episodes of {report.way} out of {len(report.novel)} novel classes, "
        f"{report.shot} shot, {report.query} queries a class, seed {report.seed}; {report.seconds:.1f} s"
    )
    scores = {
        f"fitted {report.head} head": Score(accuracy=report.accuracy, ci95=report.ci95),
        "nearest centroid": report.centroid,
    }
    table: Table[str] = Table(
        list(scores),
        [
            Column("classifier", str),
            Column("accuracy", lambda name: percent(scores[name].accuracy)),
            Column("95 % interval", lambda name: _half_width(scores[name].ci95)),
        ],
    )
    return Document([Note(setting), table])


def _half_width(ci95: float | None) -> str:
    return NOT_DEFINED if ci95 is None else f"± {100 * ci95:.2f} points"


def discriminability_document(report: DiscriminabilityReport) -> Document:
    """A table with a row for each run: accuracy on base and novel classes, and the ratios of variances.

    A ratio is the variance between classes over that within classes, of base and of novel classes.
    """

    def accuracy(run: Discriminability, shot: int) -> str:
        score = run.novel_accuracy.get(shot)
        return NOT_DEFINED if score is None else percent(score.accuracy, 1)

    table = Table(
        report.runs,
        [
            Column("run", lambda run: run.run),
            Column("head", lambda run: run.head, words=True),
            Column("margin", lambda run: f"{run.margin:g}"),
            Column("base", lambda run: percent(run.base_accuracy, 1)),
            *(Column(f"{shot} shot", partial(accuracy, shot=shot)) for shot in SHOTS),
            Column("variance", lambda run: number(run.base.ratio if run.base else None, ".3f")),
            Column("novel", lambda run: number(run.novel.ratio if run.novel else None, ".3f")),
        ],
        legend="accuracy on base classes, and on novel ones by pictures shown; variance between over within "
        "base classes, and novel ones",
    )
    return Document([table])
