"""A comparison of updates as a document: a row for each method, differences, and the old models."""

from __future__ import annotations

import math

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
    notes,
)
from mptctl.report.media.numbers import NOT_DEFINED, number
from mptctl.studies.comparison import BIAS_ROW, CalibrationRow, Comparison, ComparisonRow, Spread
from mptctl.studies.comparison import Column as Rate
from mptctl.studies.updates import PART_NAMES

# How the columns of rates are called, in percent.
TITLES: dict[Rate, str] = {"nfr": "NFR", "rel_nfr": "Rel-NFR", "er_old": "error, old", "er_all": "error, all"}
# Rel-NFR is a ratio of two rates: its second decimal says nothing.
DIGITS: dict[Rate, int] = {"nfr": 2, "rel_nfr": 1, "er_old": 2, "er_all": 2}
# Those of the old models' calibration; all but the temperature in percent.
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


def comparison_document(comparison: Comparison) -> Document:
    """A table and a figure for each section, its differences, the old models, and remarks."""
    sections = list(dict.fromkeys(row.section for row in comparison.rows))
    groups = [(name, [row for row in comparison.rows if row.section == name]) for name in sections]
    tables = []
    for name, rows in groups:
        legend = marks_sentence(comparison) if name == sections[-1] else ""
        tables.append(_updates(comparison, name, rows, legend))
        if apart := [row for row in rows if row.differences]:
            tables.append(_differences(comparison, name, apart))
    if comparison.calibration:
        tables.append(_old_models(comparison.calibration))
    result = conclusion(comparison)
    return Document(
        [
            *tables,
            *([Note(result, "strong", whole=True, media=ON_SCREEN)] if result else []),
            *notes(remarks(comparison)),
        ],
        title=_title(comparison),
        drawings=lambda: [_trade_off(i, name, rows) for i, (name, rows) in enumerate(groups)],
        footer=FOOTER,
    )


def _updates(comparison: Comparison, section: str | None, rows: list[ComparisonRow], legend: str) -> Table:
    base, shifted = comparison.equal_error, ""
    if base is not None:
        shifted = (
            f"All rows are shifted to the validation error of {base}: the largest constant that keeps to it "
            "is subtracted from the new classes' logits, or the smallest is added."
        )
    columns = [Column(title, "%", marked=True) for title in TITLES.values()]
    return Table(
        [Column("method"), *columns, Column("cost"), Column("parameters", spare=1)],
        [
            [
                Cell(row.name, _row_notes(comparison, row)),
                *(_rate(row, rate) for rate in TITLES),
                number(row.cost, ".2f"),
                parameters_text(row),
            ]
            for row in rows
        ],
        title=section or "",
        name="Updates",
        sentence=shifted,
        legend=legend,
    )


def _rate(row: ComparisonRow, rate: Rate) -> Cell:
    """Mean and deviation, the counts below, and a mark on the best of the column and what is like it."""
    mark = BEST if rate in row.best else NOISE if rate in row.within_noise_of_best else ""
    text = spread_text(getattr(row, rate), DIGITS[rate])
    counted = {"nfr": row.flips, "er_all": row.errors}.get(rate)
    if counted is None:
        return Cell(text, mark=mark)
    flips, of = (sum(pair[i] for pair in counted.values) for i in (0, 1))
    return Cell(text, (f"{flips:,} / {of:,}",), mark)


def _differences(comparison: Comparison, section: str | None, rows: list[ComparisonRow]) -> Table:
    return Table(
        [Column("method"), *(Column(title, notes_in_latex=True) for title in TITLES.values())],
        [[row.name, *(_difference(row, rate) for rate in TITLES)] for row in rows],
        title="" if section is None else f"Differences: {section}",
        name="Differences",
        sentence=f"Differences to {comparison.against}, in points, over the seeds that both have, with their "
        f"{100 * comparison.noise.level:g} % interval; of one seed it is the test draw's only.",
    )


def _difference(row: ComparisonRow, rate: Rate) -> Cell:
    """Points by which a row exceeds the one that it is held against, and the ends of their interval."""
    difference = (row.differences or {}).get(rate)
    if difference is None or difference.mean is None:
        return Cell("" if difference is None else NOT_DEFINED)
    mean = _signed_points(difference.mean, rate)
    if difference.low is None or difference.high is None:
        return Cell(mean)
    interval = f"{_signed_points(difference.low, rate)} to {_signed_points(difference.high, rate)}"
    return Cell(mean, (interval,))


def _signed_points(fraction: float, rate: Rate) -> str:
    return f"{100 * fraction:+.{DIGITS[rate]}f}"


def _old_models(rows: list[CalibrationRow]) -> Table:
    return Table(
        [Column("old model"), *(Column(title, notes_in_latex=True) for title in CALIBRATION_TITLES.values())],
        [[row.old, *(_calibration(row, column) for column in CALIBRATION_TITLES)] for row in rows],
        name="Old models",
        sentence=CALIBRATION_SENTENCE,
    )


def _calibration(row: CalibrationRow, column: str) -> Cell:
    """One figure of an old model, its deviation below: seven columns of both are more than 80 characters."""
    spread: Spread = getattr(row, column)
    if spread.mean is None:
        return Cell(NOT_DEFINED)
    factor = 1 if column == "temperature" else 100
    deviation = () if spread.std is None else (f"± {factor * spread.std:.2f}",)
    return Cell(f"{factor * spread.mean:.2f}", deviation)


def _trade_off(number: int, section: str | None, rows: list[ComparisonRow]) -> Drawing:
    from mptctl.report.figures.trade_off import draw_trade_off

    points = [f"{row.name}: error {spread_text(row.er_all)} %, NFR {spread_text(row.nfr)} %" for row in rows]
    return Drawing(
        f"trade-{number}",
        CAPTION if section is None else f"{section}. {CAPTION}",
        f"NFR against error on all classes. {'; '.join(points)}.",
        lambda: draw_trade_off(rows),
    )


def _title(comparison: Comparison) -> str:
    """The row with the lowest NFR, or those that share it."""
    best = [row for row in comparison.rows if "nfr" in row.best]
    several = len({row.section for row in comparison.rows}) > 1
    names = dict.fromkeys(f"{row.name} ({row.section})" if several else row.name for row in best)
    where = (
        f" at the validation error of {comparison.equal_error}" if comparison.equal_error is not None else ""
    )
    return f"Lowest NFR{where}: {' and '.join(names)}" if best else "Comparison"


def spread_text(spread: Spread, digits: int = 2) -> str:
    """Mean and standard deviation in percent; the mean alone of one seed."""
    if spread.mean is None:
        return NOT_DEFINED
    mean = f"{100 * spread.mean:.{digits}f}"
    return mean if spread.std is None else f"{mean} ± {100 * spread.std:.{digits}f}"


def _row_notes(comparison: Comparison, row: ComparisonRow) -> tuple[str, ...]:
    """The method where the name does not say it, and the seeds where other rows have more."""
    said = [] if row.name == row.method else [row.method]
    if len(row.seeds) < _seed_count(comparison):
        said.append(seeds_text(len(row.seeds)))
    return tuple(said)


def _seed_count(comparison: Comparison) -> int:
    """Of the rows with most seeds."""
    return max((len(row.seeds) for row in comparison.rows), default=0)


def seeds_text(count: int) -> str:
    """A number of seeds."""
    return f"{count} seed{'' if count == 1 else 's'}"


def parameters_text(row: ComparisonRow) -> str:
    """Parameters in thousands or millions."""
    amount = row.parameters
    return f"{amount / 1e6:.1f} M" if amount >= 1e6 else f"{amount / 1e3:.1f} k"


def marks_sentence(comparison: Comparison) -> str:
    """The meaning of marks and columns, in two lines of 80 characters."""
    seeds, level = _seed_count(comparison), f"{100 * comparison.noise.level:g} %"
    noise = f"noise ({level} interval contains zero)"
    rates = f"mean ± SD of {seeds_text(seeds)}"
    if comparison.noise.over == "samples":
        noise = f"sampling noise ({level}; one seed a row)"
        rates = "of one seed"
    return (
        f"{BEST} is the best of its column, {NOISE} is within {noise}. In %, {rates}, on "
        f"{PART_NAMES[comparison.part]} samples; cost 1 is one plain training."
    )


def conclusion(comparison: Comparison) -> str:
    """Names the update that flips least, and those within noise of it; empty where there are no two."""
    sections = {row.section for row in comparison.rows}
    if len(comparison.rows) < 2 or len(sections) > 1:
        return ""
    if comparison.against is not None:
        return _against(comparison, comparison.against)
    best = [row for row in comparison.rows if "nfr" in row.best]
    if not best:
        return ""
    near = [_called(row) for row in comparison.rows if "nfr" in row.within_noise_of_best]
    said = f"Least NFR{_at(comparison)}: {' and '.join(map(_called, best))}, {spread_text(best[0].nfr)} %"
    if comparison.equal_error is not None:
        said += f" (error on {PART_NAMES[comparison.part]} samples {spread_text(best[0].er_all)} %)"
    differ = "differs" if len(near) == 1 else "differ"
    return said + (f"; {some(near)} {differ} from it by no more than {_noise(comparison)}." if near else ".")


def _against(comparison: Comparison, base: str) -> str:
    """Names the rows with fewer flips than the one all are held against, with more, and with either."""
    fewer, more, either = list[str](), list[str](), list[str]()
    # Least flips first, so that the best is named also where not all are.
    for row in sorted(comparison.rows, key=lambda row: math.inf if row.nfr.mean is None else row.nfr.mean):
        found = (row.differences or {}).get("nfr")
        if found is None or found.low is None or found.high is None:
            continue
        if found.high < 0:
            fewer.append(_called(row))
        elif found.low > 0:
            more.append(_called(row))
        else:
            either.append(_called(row))
    if not fewer + more + either:
        return ""
    said = f"Fewer flips than {base}{_at(comparison)}: {some(fewer) if fewer else 'none'}"
    said += f"; more: {some(more)}" if more else ""
    return said + (f"; apart by no more than {_noise(comparison)}: {some(either)}." if either else ".")


def _noise(comparison: Comparison) -> str:
    """The kind of noise that the intervals know: of one seed nothing is known of another training."""
    return "sampling noise" if comparison.noise.over == "samples" else "noise"


def _at(comparison: Comparison) -> str:
    """At which error, where all are brought to one."""
    if comparison.equal_error is None:
        return ""
    return f" at the validation error of {comparison.equal_error}"


def _called(row: ComparisonRow) -> str:
    """Its name in a sentence: that of the bias has a comma in it."""
    return f"“{row.name}”" if row.name == BIAS_ROW else row.name


def remarks(comparison: Comparison) -> list[str]:
    """Sentences on the old models, on the row of the bias, and the notes."""
    lines = []
    # By old model, the table of their calibration has their accuracy.
    for old in comparison.old if comparison.calibration is None else ():
        where = f" of {old.split}" if old.split else ""
        lines.append(
            f"The old models{where} are wrong on {spread_text(old.er_old)} % of the "
            f"{PART_NAMES[comparison.part]} samples of old classes."
        )
    if comparison.equal_error is not None:
        checked = [
            f"{_called(row)} {sum(count for count, _ in row.flips_at_test_error.values):,}"
            for row in comparison.rows
            if row.flips_at_test_error is not None
        ]
        if checked:
            lines.append(
                f"Flips at the test error of {comparison.equal_error}, with shifts read off the test part "
                f"itself: {', '.join(checked)}."
            )
    for section, row in comparison.bias_held_against.items():
        where = "" if section == "all" else f" of {section}"
        lines.append(
            f"“{BIAS_ROW}”{where}: the plain update, shifted to the validation error of {row} "
            "(--equal-error ROW --shift plain sets another row), without training."
        )
    return [*lines, *(f"Note: {note}." for note in comparison.notes)]
