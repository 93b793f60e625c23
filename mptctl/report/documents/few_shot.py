"""Make the documents of `fewshot`: accuracy over episodes, and how far features keep classes apart."""

from __future__ import annotations

from mptctl.inference.discriminability import SHOTS, DiscriminabilityReport
from mptctl.inference.few_shot import FewShotReport
from mptctl.report.media.document import Column, Document, Note, Table
from mptctl.report.media.numbers import NOT_DEFINED, number, percent


def few_shot_document(report: FewShotReport) -> Document:
    """The document of few-shot episodes: their number and kind, then the accuracy of each classifier."""
    setting = (
        f"{report.episodes:,} episodes of {report.way} out of {len(report.novel)} novel classes, "
        f"{report.shot} shot, {report.query} queries a class, seed {report.seed}; {report.seconds:.1f} s"
    )
    scores = (
        (f"fitted {report.head} head", report.accuracy, report.ci95),
        ("nearest centroid", report.centroid.accuracy, report.centroid.ci95),
        ("logistic regression", report.logistic.accuracy, report.logistic.ci95),
    )
    rows = [
        [name, percent(accuracy), NOT_DEFINED if half_width is None else f"± {100 * half_width:.2f} points"]
        for name, accuracy, half_width in scores
    ]
    columns = [Column("classifier"), Column("accuracy"), Column("95 % interval")]
    return Document([Note(setting), Table(columns, rows)])


def discriminability_document(report: DiscriminabilityReport) -> Document:
    """A table with a row for each run: accuracy on base and novel classes, and the ratios of variances.

    A ratio is the variance between classes over that within classes, of base and of novel classes.
    """
    columns = [
        Column("run"),
        Column("head", words=True),
        Column("margin"),
        Column("base"),
        *(Column(f"{shot} shot") for shot in SHOTS),
        Column("variance"),
        Column("novel"),
    ]
    rows = []
    for run in report.runs:
        novel = [run.novel_accuracy.get(shot) for shot in SHOTS]
        scores = [NOT_DEFINED if score is None else percent(score.accuracy, 1) for score in novel]
        spreads = [number(each.ratio if each else None, ".3f") for each in (run.base, run.novel)]
        rows.append([run.run, run.head, f"{run.margin:g}", percent(run.base_accuracy, 1), *scores, *spreads])
    legend = (
        "accuracy on base classes, and on novel ones by pictures shown; variance between over within base "
        "classes, and novel ones"
    )
    return Document([Table(columns, rows, legend=legend)])
