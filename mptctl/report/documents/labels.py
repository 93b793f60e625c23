"""Make the documents of disagreements and of what their labels say, and the page to label them on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from mptctl.errors import UsageError
from mptctl.evaluation.gate.history import verdict_of
from mptctl.evaluation.labels.draw import OTHER, UNSURE, Draw
from mptctl.evaluation.labels.report import LISTED, DisagreeReport, LabelledReport
from mptctl.evaluation.labels.sampling import LabelPlan
from mptctl.evaluation.slices.source import slice_name
from mptctl.files.explained import shown
from mptctl.report.documents.flips_markdown import comment
from mptctl.report.media.document import TONES, Column, Document, Note, Table, notes
from mptctl.report.media.numbers import format_interval, percent

R = TypeVar("R")
# Rows of a table on a screen.
SHOWN = 12
# Chosen: most rows of a page, and pixels of a picture's longest side, so that a page has about 20 MB at most.
PAGE_ROWS, SIDE = 1_000, 320
_HOW_TO_LABEL = (
    "Label from the first row on: the order is random, and a row that is skipped counts as unsure.",
    "The page does not say which model predicts which class.",
    "Keys: 1 and 2 the predicted classes, 3 other (neither is right), 4 unsure, left and right arrow move.",
    "This browser keeps the labels; save them as labelled.csv for mptctl evaluate --labels.",
)


def _first_rows(title: str, rows: Sequence[R], columns: Sequence[Column[R]]) -> list[Table[R]]:
    """A table of the first rows, which says how many there are; none without rows.

    Where the report has no room for more of them, the title says so: there may be others.
    """
    if not rows:
        return []
    first = f", the first {LISTED:,}" if len(rows) == LISTED else ""
    return [Table(rows[:SHOWN], columns, title=title + first, total=len(rows))]


def disagree_document(report: DisagreeReport) -> Document:
    """The document of where two models' predictions differ, and what it takes to decide a limit."""
    classes = _first_rows(
        "Predictions of OLD",
        report.by_class,
        [
            Column("OLD", lambda row: shown(row.old)),
            Column("differ", lambda row: f"{row.disagreements.count:,} / {row.n:,}"),
            Column("share", lambda row: percent(row.disagreements.rate)),
        ],
    )
    pairs = _first_rows(
        "Predictions that differ",
        report.pairs,
        [
            Column("OLD", lambda row: shown(row.old)),
            Column("NEW", lambda row: shown(row.new), words=True),
            Column("samples", lambda row: f"{row.samples:,}"),
        ],
    )
    slices = _first_rows(
        "Slices",
        report.slices,
        [
            Column("slice", lambda row: slice_name(row.by)),
            Column("differ", lambda row: f"{row.disagreements.count:,} / {row.n:,}"),
            Column("share", lambda row: percent(row.disagreements.rate)),
        ],
    )
    strata = _first_rows(
        "Strata",
        report.drawn.strata if len(report.drawn.strata) > 1 else [],
        [
            Column("stratum", lambda row: row.name),
            Column("rows", lambda row: f"{row.disagreements:,}"),
            Column("drawn", lambda row: f"{row.count:,}"),
        ],
    )
    count, share = report.disagreements.count, percent(report.disagreements.rate)
    head = f"{count:,} of {report.n:,} predictions differ ({share}); no other sample can flip."
    sentences = notes(_plan_sentences(report.labels))
    head_note = Note(head, "strong", whole=True)
    return Document([*classes, *pairs, *slices, *strata, *sentences, head_note], title=head)


def _plan_sentences(plan: LabelPlan | None) -> list[str]:
    """The sentence on how many labels decide the limit, and how many of random samples would."""
    if plan is None:
        return []
    shows = f"at {100 * plan.confidence:.10g} %"
    limit = f"the limit of {100 * plan.for_limit:g} %"
    power = f"with {100 * plan.power:g} % probability if half as many flip"
    if plan.needed == 0:
        return [
            f"No label is needed: so few predictions differ that {limit} is kept {shows}, whatever flips."
        ]
    if plan.needed is None:
        first = f"Not even all labels show {shows} that {limit} is kept, {power}: it takes more traffic."
    else:
        first = (
            f"{plan.needed:,} labels of these, in random order, show {shows} that {limit} is kept, {power}."
        )
    many = "more than 10^9" if plan.random_needed is None else f"{plan.random_needed:,}"
    return [first, f"Labels of a random sample of all traffic: {many}."]


def verdict_of_labels(report: LabelledReport) -> str:
    """The verdict and its limits in one line; without a limit the line gives the rate of negative flips."""
    if report.gate.checks:
        return f"{verdict_of(report.gate).upper()}  {'; '.join(check.brief for check in report.gate.checks)}"
    return (
        f"negative flips per sample {percent(report.flips.rate)}  ({report.labelled:,} labels, 95 % interval "
        f"{format_interval(report.flips.ci95)[:-2]})"
    )


def labelled_document(report: LabelledReport) -> Document:
    """The document of what labels say of a replacement: rates, slices and the verdict."""
    rates = {
        "negative flips per sample": report.flips,
        "positive flips per sample": report.positive_flips,
        "change of accuracy": report.accuracy_change,
    }
    table: Table[str] = Table(
        list(rates),
        [
            Column("", str),
            Column("labels", lambda name: f"{rates[name].count:,}"),
            Column("estimate", lambda name: percent(rates[name].rate)),
            Column("in this traffic", lambda name: format_interval(rates[name].ci95_this_traffic)),
            Column("in such traffic", lambda name: format_interval(rates[name].ci95)),
        ],
        title=f"Flips, with the 95 % interval that {report.labelled:,} labels allow",
        legend="In this traffic: the samples that were drawn from. In such traffic: all that these "
        "stand for, by which a limit is decided.",
    )
    slices = _first_rows(
        "Slices",
        report.slices,
        [
            Column("slice", lambda row: slice_name(row.by)),
            Column("labelled", lambda row: f"{row.labelled:,} of {row.disagreements:,}"),
            Column("negative flips", lambda row: percent(row.flips.rate)),
            Column("in such traffic", lambda row: format_interval(row.flips.ci95)),
        ],
    )
    sentences = [
        f"{report.disagreements:,} of {report.n:,} predictions differ; {report.labelled:,} of "
        f"{report.drawn.count:,} drawn rows are labelled, {report.unsure:,} of them unsure.",
        f"NFR n/a: {report.nfr_reason}." if report.nfr_reason else "NFR: the negative flips per sample.",
    ]
    if report.looks == "any":
        sentences.append("The intervals hold after every label.")
    elif report.labelled < report.disagreements:
        sentences.append(
            "The intervals are for one look, after a fixed number of labels; --looks any for more."
        )
    remarks = notes([f"Note: {warning}." for warning in report.warnings], "doubt")
    state = verdict_of(report.gate)
    verdict = verdict_of_labels(report)
    return Document(
        [table, *slices, *notes(sentences), *remarks, Note(verdict, TONES[state], whole=True)],
        title=verdict.partition("  (")[0],
        subject=f"{report.old} -> {report.new}",
        state=state,
    )


def labelled_markdown(report: LabelledReport) -> str:
    """The report of labels as Markdown for a pull request."""
    return comment(labelled_document(report))


def label_page(draw: Draw, pictures: Path | None) -> str:
    """Return the HTML page that asks for the labels of a draw, and saves them as a label file.

    Args:
        draw: the rows; both predictions of each stand in the order of their names.
        pictures: folder of pictures whose paths below it are the ids; None: ids alone are shown.

    Raises:
        UsageError: more rows are drawn than a page holds.
    """
    from mptctl.report.media.page import render_document
    from mptctl.report.media.pictures import data_url, pictures_below

    if len(draw) > PAGE_ROWS:
        raise UsageError(
            f"--page: holds at most {PAGE_ROWS:,} rows, and {len(draw):,} are drawn; add --draw {PAGE_ROWS}"
        )
    read = None if pictures is None else pictures_below(pictures)
    rows = []
    for row in draw.rows():
        pixels = None if read is None else read(row["id"])
        picture = None if pixels is None else data_url(pixels, SIDE, "JPEG")
        rows.append({"id": row["id"], "choices": sorted((row["old"], row["new"])), "picture": picture})
    document = Document(notes(_HOW_TO_LABEL), title="Which class is right?")
    classes = [name for name in draw.traffic.pairing.vocabulary if name]
    asked = {"draw": draw.fingerprint, "rows": rows, "classes": classes, "other": [OTHER, UNSURE]}
    return render_document(document, None, "label", asked=asked)
