"""Make the document of a choice: a row for each update, what was chosen, its commands, cost and estimate."""

from __future__ import annotations

from mptctl.report.media.document import BEST, NOISE, Cell, Column, Document, Note, Table, mark_of, notes
from mptctl.report.media.numbers import number
from mptctl.studies.comparison import Choice, ChoiceRow, Counted


def choice_document(choice: Choice) -> Document:
    """The document of a choice: the table, then sentences."""
    level = f"{100 * choice.noise.level:.10g} %"
    noise = "sampling noise" if choice.noise.over == "samples" else "noise"
    table = Table(
        choice.rows,
        [
            Column("method", lambda row: Cell(row.name)),
            Column("NFR", lambda row: _nfr_cell(choice, row), "%"),
            Column("error, all", lambda row: _rate_cell(row.errors), "%"),
            Column("cost", lambda row: number(row.cost, ".2f")),
        ],
        sentence=f"Every row is shifted to the error of {choice.error_of} on one half of the validation "
        "samples, and counted on the other half, both ways.",
        legend=f"{BEST} has the fewest flips, {NOISE} is within {noise} of it ({level} for all rows "
        "together); cost 1 is one plain training.",
    )
    row = choice.row
    chosen = f"Chosen: {row.name}, cost {number(row.cost, '.2f')}: {_reason(choice, noise)}."
    return Document(
        [
            table,
            Note(chosen, "strong", whole=True),
            Note(_estimate_sentence(choice), whole=True),
            *(Note(command, whole=True) for command in choice.commands),
            *notes([f"Note: {note}." for note in choice.notes]),
        ],
        title=f"Chosen: {row.name}",
    )


def _reason(choice: Choice, noise: str) -> str:
    """Why the row was chosen, without a full stop; ``noise`` is the word for what two rows may differ by."""
    if choice.row.name == choice.fewest_flips:
        return "it has the fewest flips"
    fewest = next(row for row in choice.rows if row.name == choice.fewest_flips)
    return (
        f"the cheapest within {noise} of {fewest.name}, which has the fewest flips (NFR "
        f"{100 * fewest.nfr:.2f} %, cost {number(fewest.cost, '.2f')}). Within noise does not mean as good: "
        "take that one if you can afford it"
    )


def _estimate_sentence(choice: Choice) -> str:
    """A sentence on the NFR of the chosen row on other samples, and how it was estimated."""
    estimate = choice.estimate
    return (
        f"Expected NFR on other samples: {100 * estimate.nfr:.2f} %. That is {100 * choice.row.nfr:.2f} %, "
        f"and {100 * estimate.correction:z.2f} points for the choice "
        f"({choice.noise.resamples:,} redraws of the validation samples, "
        f"{100 * estimate.chosen_again:.0f} % of which choose the same row). "
        "What another training would change is not in it."
    )


def _nfr_cell(choice: Choice, row: ChoiceRow) -> Cell:
    """NFR with its counts, and the mark of the best or of one within noise."""
    mark = mark_of(is_best=row.name == choice.fewest_flips, is_near=row.within_noise)
    return Cell(f"{100 * row.nfr:.2f}", _rate_cell(row.flips).notes, mark)


def _rate_cell(counted: Counted) -> Cell:
    """A rate in percent over all seeds, with its counts."""
    count = sum(count for count, _ in counted.values)
    samples = sum(samples for _, samples in counted.values)
    return Cell(f"{100 * count / samples:.2f}", (f"{count:,} / {samples:,}",))
