"""Make the document of a comparison of updates: a row for each method, differences, and the old models."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from mptctl.errors import some
from mptctl.report.media.document import (
    BEST,
    NOISE,
    ON_SCREEN,
    Cell,
    Column,
    Document,
    Drawing,
    Note,
    Table,
    mark_of,
    notes,
)
from mptctl.report.media.numbers import NOT_DEFINED, counted, number
from mptctl.studies.comparison import (
    BIAS_ROW,
    COLUMNS,
    CalibrationRow,
    Comparison,
    ComparisonRow,
    Difference,
    Spread,
)
from mptctl.studies.comparison import Column as Rate
from mptctl.studies.groups import name_of_training
from mptctl.studies.updates import PART_NAMES

# Flips of a row, compared with those of the base row; two seeds have no interval that could tell.
Side = Literal["fewer", "more", "within noise", "two seeds", "unknown"]
# Titles of the columns of rates, which are in percent.
TITLES: dict[Rate, str] = {"nfr": "NFR", "rel_nfr": "Rel-NFR", "er_old": "error, old", "er_all": "error, all"}
# Decimals of a rate. Rel-NFR is a ratio of two rates: its second decimal says nothing.
DIGITS: dict[Rate, int] = {"nfr": 2, "rel_nfr": 1, "er_old": 2, "er_all": 2}
# Titles of the old models' calibration, by the field of a row; all but the temperature are in percent.
CALIBRATION_TITLES: dict[str, str] = {
    "accuracy": "accuracy",
    "ece": "ECE",
    "aece": "AECE",
    "temperature": "T",
    "scaled_ece": "ECE at T",
    "scaled_aece": "AECE at T",
}
CALIBRATION_SENTENCE = (
    "The old models by themselves, on test samples of old classes, in percent but for T, the temperature "
    "fitted on the validation part; calibration errors with 15 bins."
)
CAPTION = (
    "NFR against error on all classes; a small mark for each seed, a large one for the mean, its area as the "
    "cost of training; best is below left."
)

FOOTER = (
    "A negative flip is a sample that the old model got right and the update gets wrong; NFR counts them "
    "over samples of the old classes. Counts are sums over seeds."
)


class DifferenceRow(NamedTuple):
    """The difference of a rate between a row, by its name, and the row that all are compared with."""

    name: str
    rate: Rate
    difference: Difference


def comparison_document(comparison: Comparison) -> Document:
    """The document of a comparison: the tables, a figure, old models' calibration, remarks."""
    tables: list[Table[Any]] = [_updates_table(comparison)] if comparison.rows else []
    if any(row.differences for row in comparison.rows):
        tables.append(_differences_table(comparison))
    if comparison.calibration:
        tables.append(_old_models_table(comparison.calibration))
    result = conclusion(comparison)
    return Document(
        [
            *tables,
            *([Note(result, "strong", whole=True, media=ON_SCREEN)] if result else []),
            *notes(remarks(comparison)),
        ],
        title=_title(comparison),
        drawings=lambda: [_trade_off_drawing(comparison.rows)] if comparison.rows else [],
        footer=FOOTER,
    )


def _updates_table(comparison: Comparison) -> Table[ComparisonRow]:
    """The rates of the updates, their parameters where these differ, and a legend for the marks."""
    columns: list[Column[ComparisonRow]] = [
        Column("method", lambda row: Cell(row.name, _row_notes(comparison, row))),
        *(Column(title, partial(_rate_cell, rate=rate), "%") for rate, title in TITLES.items()),
        Column("cost", lambda row: number(row.cost, ".2f")),
    ]
    if any(row.tuning for row in comparison.rows):
        columns.append(Column("tuning", lambda row: number(row.tuning.cost, ".2f") if row.tuning else ""))
    if len({row.parameters for row in comparison.rows}) > 1:
        columns.append(Column("parameters", parameters_text))
    return Table(
        comparison.rows,
        columns,
        name="Updates",
        sentence=_shift_sentence(comparison),
        legend=marks_sentence(comparison),
    )


def _shift_sentence(comparison: Comparison) -> str:
    """A sentence on the shift of all rows; empty where they are not shifted."""
    if comparison.equal_error is None:
        return ""
    return (
        f"All rows are shifted to the validation error of {comparison.equal_error}: the largest constant "
        "that keeps to it is subtracted from the new classes' logits, or the smallest is added."
    )


def _rate_cell(row: ComparisonRow, rate: Rate) -> Cell:
    """Mean and standard deviation of a rate, its mark and, for NFR and error on all classes, its counts."""
    text = spread_text(getattr(row, rate), DIGITS[rate])
    mark = mark_of(is_best=rate in row.best, is_near=rate in row.within_noise_of_best)
    counts = {"nfr": row.flips, "er_all": row.errors}.get(rate)
    if counts is None:
        return Cell(text, mark=mark)
    count = sum(count for count, _ in counts.values)
    samples = sum(samples for _, samples in counts.values)
    return Cell(text, (f"{count:,} / {samples:,}",), mark)


def _differences_table(comparison: Comparison) -> Table[DifferenceRow]:
    """The differences of the rows, a line for each rate; an interval stands below its question."""
    return Table(
        [
            DifferenceRow(row.name, rate, difference)
            for row in comparison.rows
            for rate, difference in (row.differences or {}).items()
        ],
        [
            Column("method", lambda row: row.name),
            Column("rate", lambda row: TITLES[row.rate], words=True),
            Column("difference", _difference_cell, notes_in_latex=True),
            Column("another test draw", lambda row: _interval_text(row) if row.difference.seeds == 1 else ""),
            Column("another training", lambda row: _interval_text(row) if row.difference.seeds != 1 else ""),
        ],
        name="Differences",
        sentence=f"Differences to {comparison.against}, in points, over the seeds that both have, with "
        f"{100 * comparison.noise.level:.10g} % intervals: of one seed, what another draw of "
        f"{PART_NAMES[comparison.part]} samples would change for the same trainings; of three and more, what "
        "another training and another draw would. Two seeds have no interval, but both differences.",
    )


def _difference_cell(row: DifferenceRow) -> Cell:
    """A difference in points; of two seeds, which have no interval, with the difference of each as a note."""
    difference = row.difference
    if difference.mean is None:
        return Cell(NOT_DEFINED)
    mean = _signed_points(difference.mean, row.rate)
    if difference.seeds != 2:
        return Cell(mean)
    of_seeds = [
        NOT_DEFINED if value is None else _signed_points(value, row.rate) for value in difference.values
    ]
    return Cell(mean, (", ".join(of_seeds),))


def _interval_text(row: DifferenceRow) -> str:
    """The interval of a difference in points; empty where it has none."""
    low = row.difference.low
    high = row.difference.high
    if low is None or high is None:
        return ""
    return f"{_signed_points(low, row.rate)} to {_signed_points(high, row.rate)}"


def _signed_points(fraction: float, rate: Rate) -> str:
    """A difference in points with its sign, and as many decimals as the rate has."""
    return f"{100 * fraction:+.{DIGITS[rate]}f}"


def _old_models_table(rows: list[CalibrationRow]) -> Table[CalibrationRow]:
    """A row for each old model with its accuracy, calibration errors and temperature."""
    return Table(
        rows,
        [
            Column("old model", lambda row: row.old),
            *(
                Column(title, partial(_calibration_cell, field=field), notes_in_latex=True)
                for field, title in CALIBRATION_TITLES.items()
            ),
        ],
        name="Old models",
        sentence=CALIBRATION_SENTENCE,
    )


def _calibration_cell(row: CalibrationRow, field: str) -> Cell:
    """The mean of a field of an old model, with its standard deviation as a note.

    Beside the mean, deviations would make seven columns wider than 80 characters.
    """
    spread: Spread = getattr(row, field)
    if spread.mean is None:
        return Cell(NOT_DEFINED)
    factor = 1 if field == "temperature" else 100
    deviation = () if spread.std is None else (f"± {factor * spread.std:.2f}",)
    return Cell(f"{factor * spread.mean:.2f}", deviation)


def _trade_off_drawing(rows: list[ComparisonRow]) -> Drawing:
    """The figure of NFR against error."""
    from mptctl.report.figures.trade_off import draw_trade_off

    return Drawing("trade-0", CAPTION, draw_trade_off(rows))


def _title(comparison: Comparison) -> str:
    """The title of a document: the rows with the lowest NFR."""
    best = [row.name for row in comparison.rows if "nfr" in row.best]
    if not best:
        return "Comparison"
    return f"Lowest NFR{_rows_ranked(comparison, ['nfr'])}{_at_error(comparison)}: {' and '.join(best)}"


def spread_text(spread: Spread, digits: int = 2) -> str:
    """Mean and standard deviation of a rate in percent: ``1.74 ± 0.12``; with one seed only the mean."""
    if spread.mean is None:
        return NOT_DEFINED
    mean = f"{100 * spread.mean:.{digits}f}"
    return mean if spread.std is None else f"{mean} ± {100 * spread.std:.{digits}f}"


def _row_notes(comparison: Comparison, row: ComparisonRow) -> tuple[str, ...]:
    """The notes below a row's name: its method and first weights if it has another name, fewer seeds."""
    training = name_of_training(row.method, row.init)
    row_notes = [] if row.name == training else [training]
    if len(row.seeds) < _most_seeds(comparison):
        row_notes.append(counted(len(row.seeds), "seed", "seeds"))
    return tuple(row_notes)


def _rows_ranked(comparison: Comparison, rates: Sequence[Rate]) -> str:
    """The rows that a best one is the best of, as part of a sentence on some rates.

    Empty where it is the best of all: where no row with fewer seeds has a lower mean.
    """
    best = [(row, rate) for row in comparison.rows for rate in rates if rate in row.best]
    if not any(_has_lower_mean(other, row, rate) for row, rate in best for other in comparison.rows):
        return ""
    all_seeds = {seed for row in comparison.rows for seed in row.seeds}
    if all(len(row.seeds) == len(all_seeds) for row, _ in best):
        return f" of the rows with all {counted(len(all_seeds), 'seed', 'seeds')}"
    return " of the rows with most seeds"


def _has_lower_mean(row: ComparisonRow, other: ComparisonRow, rate: Rate) -> bool:
    """Tells whether a row has a lower mean of a rate than another row."""
    mean = getattr(row, rate).mean
    mean_of_other = getattr(other, rate).mean
    return mean is not None and mean_of_other is not None and mean < mean_of_other


def _most_seeds(comparison: Comparison) -> int:
    """The number of seeds of the row that has most; 0 without rows."""
    return max((len(row.seeds) for row in comparison.rows), default=0)


def parameters_text(row: ComparisonRow) -> str:
    """The number of parameters in thousands or millions, such as ``11.2 M``."""
    parameters = row.parameters
    return f"{parameters / 1e6:.1f} M" if parameters >= 1e6 else f"{parameters / 1e3:.1f} k"


def marks_sentence(comparison: Comparison) -> str:
    """The meaning of marks and columns, in two lines of 80 characters, or three where rows lack seeds."""
    level = f"{100 * comparison.noise.level:.10g} % for all rows together"
    if comparison.noise.over == "samples":
        noise = f"sampling noise ({level}; one seed a row)"
        rates = "of one seed"
    else:
        noise = f"noise ({level})"
        rates = f"mean ± SD of {counted(_most_seeds(comparison), 'seed', 'seeds')}"
    best = f"the best{_rows_ranked(comparison, COLUMNS) or ' of its column'}"
    return (
        f"{BEST} is {best}, {NOISE} is within {noise}. In %, {rates}, on "
        f"{PART_NAMES[comparison.part]} samples; cost 1 is one plain training."
    )


def conclusion(comparison: Comparison) -> str:
    """A sentence on the updates with the lowest NFR, and on those that differ from them by noise only.

    If the rows are compared with one of them, it says which have fewer and which have more flips than that
    row. Empty for a single row, and where no NFR is defined.
    """
    if len(comparison.rows) < 2:
        return ""
    if comparison.against is not None:
        return _sides_sentence(comparison, comparison.against)
    best = [row for row in comparison.rows if "nfr" in row.best]
    if not best:
        return ""
    best_names = " and ".join(map(_quoted_name, best))
    least = f"Least NFR{_rows_ranked(comparison, ['nfr'])}{_at_error(comparison)}"
    sentence = f"{least}: {best_names}, {spread_text(best[0].nfr)} %"
    if comparison.equal_error is not None:
        sentence += f" (error on {PART_NAMES[comparison.part]} samples {spread_text(best[0].er_all)} %)"
    near = [_quoted_name(row) for row in comparison.rows if "nfr" in row.within_noise_of_best]
    if near:
        differ = "differs" if len(near) == 1 else "differ"
        sentence += f"; {some(near)} {differ} from it by no more than {_noise_words(comparison)}"
    return f"{sentence}."


def _sides_sentence(comparison: Comparison, base: str) -> str:
    """A sentence on the rows with fewer flips than the base row, with more, and within noise of it.

    Of rows of two seeds it says that they judge nothing. Empty where no row has an interval for another
    reason.
    """
    names: defaultdict[Side, list[str]] = defaultdict(list)
    # Lowest NFR first.
    for row in sorted(comparison.rows, key=lambda row: math.inf if row.nfr.mean is None else row.nfr.mean):
        names[_side(row)].append(_quoted_name(row))
    if not (names["fewer"] or names["more"] or names["within noise"]):
        return "Two seeds judge no difference; a third gives intervals." if names["two seeds"] else ""
    sentence = f"Fewer flips than {base}{_at_error(comparison)}: {', '.join(names['fewer']) or 'none'}"
    words: dict[Side, str] = {
        "more": "more",
        "within noise": f"apart by no more than {_noise_words(comparison)}",
        "two seeds": "not judged, of two seeds",
    }
    for side, meaning in words.items():
        if names[side]:
            sentence += f"; {meaning}: {', '.join(names[side])}"
    return f"{sentence}."


def _side(row: ComparisonRow) -> Side:
    """The side of the base row on which a row's flips are."""
    difference = (row.differences or {}).get("nfr")
    if difference is None:
        return "unknown"
    if difference.low is None or difference.high is None:
        return "two seeds" if difference.seeds == 2 else "unknown"
    if difference.high < 0:
        return "fewer"
    return "more" if difference.low > 0 else "within noise"


def _noise_words(comparison: Comparison) -> str:
    """The noise that the intervals contain; with one seed they know nothing of retraining noise."""
    return "sampling noise" if comparison.noise.over == "samples" else "noise"


def _at_error(comparison: Comparison) -> str:
    """The error that all rows are shifted to, as part of a sentence; empty where they are not shifted."""
    return f" at the validation error of {comparison.equal_error}" if comparison.equal_error else ""


def _quoted_name(row: ComparisonRow) -> str:
    """The name of a row in a sentence; that of the shifted plain update in quotes, since it has a comma."""
    return f"“{row.name}”" if row.name == BIAS_ROW else row.name


def remarks(comparison: Comparison) -> list[str]:
    """Sentences on the old models' errors and the shifted plain update; notes."""
    sentences = [
        f"The old models are wrong on {spread_text(old.er_old)} % of the {PART_NAMES[comparison.part]} "
        "samples of old classes."
        for old in comparison.old
    ]
    sentences += [
        f"“{BIAS_ROW}”: the plain update, shifted to the validation error of {row}, without training."
        for row in comparison.bias_held_against.values()
    ]
    return [*sentences, *(f"Note: {note}." for note in comparison.notes)]
