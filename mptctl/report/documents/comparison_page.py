"""A comparison as one HTML page that needs nothing but itself: NFR against error, and the table."""

from __future__ import annotations

from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from mptctl.report.documents.comparison_wording import (
    BEST,
    CALIBRATION_SENTENCE,
    CALIBRATION_TITLES,
    DIGITS,
    TITLES,
    calibration_text,
    cost_text,
    counts_text,
    difference_rows,
    difference_text,
    differences_sentence,
    interval_text,
    mark,
    marks_sentence,
    parameters_text,
    remarks,
    seeds_text,
    spread_text,
)
from mptctl.report.media.page import inline_figure
from mptctl.report.media.provenance import Provenance
from mptctl.report.media.svg import FRESH, INK, LOST, NEW, OLD, SIZE, short, style
from mptctl.report.media.tables_page import Cell, PageTable, TablesPage
from mptctl.studies.comparison import BIAS_ROW, COLUMNS, CalibrationRow, Column, Comparison, ComparisonRow

# Twenty looks: the colour changes first, the mark with every fifth row.
COLOURS, MARKS = (OLD, NEW, LOST, FRESH, INK), ("o", "s", "^", "D")
# Columns of the legend, letters of its labels, and inches of one of its rows.
LEGEND_COLUMNS, LEGEND_LETTERS, LEGEND_ROW = 2, 24, 0.17
# Points squared of a seed's mark, of a legend's, and of the mean's mark by plain training's cost.
SEED_AREA, LEGEND_AREA, COST_AREA = 12, 50, 40
CAPTION = (
    "NFR against error on all classes; a small mark for each seed, a large one for the mean, its area as the cost "
    "of training; best is below left."
)

FOOTER = (
    "A negative flip is a sample that the old model got right and the update gets wrong; NFR counts them over "
    "samples of the old classes. Counts are sums over seeds."
)


def render_comparison(comparison: Comparison, provenance: Provenance | None = None) -> str:
    """The page as text.

    Args:
        comparison: of updates.
        provenance: what the page was made from.
    """
    return comparison_page(comparison).render(provenance)


def comparison_page(comparison: Comparison) -> TablesPage:
    """The page of a comparison: a figure and a table for each section of it, and a table of the old models."""
    sections = list(dict.fromkeys(row.section for row in comparison.rows))
    groups = [(name, [row for row in comparison.rows if row.section == name]) for name in sections]
    figures = [
        inline_figure(
            f"trade-{number}",
            CAPTION if name is None else f"{name}. {CAPTION}",
            draw_trade_off(rows),
            _seen(rows),
        )
        for number, (name, rows) in enumerate(groups)
    ]
    tables = [_updates("Updates" if name is None else name, rows) for name, rows in groups]
    tables += [
        _differences(comparison, name, apart)
        for name in sections
        if (apart := difference_rows(comparison, name))
    ]
    if comparison.calibration:
        tables.append(_old_models(comparison.calibration))
    marks = [marks_sentence(comparison)] if comparison.rows else []
    return TablesPage(_title(comparison), [*marks, *remarks(comparison)], figures, tables, FOOTER)


def _updates(title: str, rows: list[ComparisonRow]) -> PageTable:
    def rate(row: ComparisonRow, column: Column) -> Cell:
        sign = mark(row, column)
        text = spread_text(getattr(row, column), DIGITS[column]) + sign
        return Cell(text, counts_text(row, column), sign == BEST)

    return PageTable(
        title,
        ["method", *(f"{heading} %" for heading in TITLES.values()), "cost", "parameters"],
        [
            [
                Cell(row.name, seeds_text(row)),
                *(rate(row, column) for column in COLUMNS),
                Cell(cost_text(row)),
                Cell(parameters_text(row)),
            ]
            for row in rows
        ],
    )


def _differences(comparison: Comparison, section: str | None, rows: list[ComparisonRow]) -> PageTable:
    return PageTable(
        "Differences" if section is None else f"Differences: {section}",
        ["method", *TITLES.values()],
        [
            [
                Cell(row.name),
                *(Cell(difference_text(row, column), interval_text(row, column)) for column in COLUMNS),
            ]
            for row in rows
        ],
        differences_sentence(comparison),
    )


def _old_models(rows: list[CalibrationRow]) -> PageTable:
    return PageTable(
        "Old models",
        ["old model", *CALIBRATION_TITLES.values()],
        [
            [Cell(row.old), *(Cell(calibration_text(row, column)) for column in CALIBRATION_TITLES)]
            for row in rows
        ],
        CALIBRATION_SENTENCE,
    )


def _seen(rows: list[ComparisonRow]) -> str:
    """Every mean of the figure, in words and numbers."""
    points = [f"{row.name}: error {spread_text(row.er_all)} %, NFR {spread_text(row.nfr)} %" for row in rows]
    return f"NFR against error on all classes. {'; '.join(points)}."


def draw_trade_off(rows: list[ComparisonRow]) -> Figure:
    """NFR over error on all classes, for every method and seed."""
    with style():
        figure = Figure(figsize=(SIZE[0], SIZE[1] + LEGEND_ROW * -(-len(rows) // LEGEND_COLUMNS)))
        axes = figure.subplots()
        looks = {row.name: (COLOURS[i % len(COLOURS)], MARKS[i // len(COLOURS) % len(MARKS)])
                 for i, row in enumerate(row for row in rows if row.method != BIAS_ROW)}  # fmt: skip
        for row in rows:
            means = row.er_all.mean, row.nfr.mean
            if means[0] is None or means[1] is None:
                continue
            # What is free stands hollow, in the look of the plain update that it was made from.
            colour, marker = looks.get(row.name) or next(iter(looks.values()))
            fill = "none" if row.method == BIAS_ROW else colour
            x, y = 100 * means[0], 100 * means[1]
            for error, nfr in zip(row.er_all.values, row.nfr.values, strict=True):
                if error is not None and nfr is not None:
                    axes.plot([x, 100 * error], [y, 100 * nfr], color=colour, linewidth=0.6, alpha=0.6)
                    axes.scatter(
                        [100 * error], [100 * nfr], s=SEED_AREA, facecolors=fill, edgecolors=colour, marker=marker,
                        linewidths=0.8, clip_on=False, zorder=4,
                    )  # fmt: skip
            # Cheap ones above costly ones, so that none lies hidden.
            area = COST_AREA * (1.0 if row.cost is None else row.cost)
            axes.scatter(
                [x], [y], s=area, facecolors=fill, edgecolors=colour, marker=marker, clip_on=False,
                label=short(row.name, LEGEND_LETTERS), alpha=0.6, zorder=3 - area / 10**6,
            )  # fmt: skip
        axes.set(xlabel="error on all classes, %", ylabel="NFR, %")
        axes.margins(x=0.1, y=0.1)
        axes.set_ylim(bottom=0)
        legend = axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=LEGEND_COLUMNS, borderaxespad=0.2)
        for handle in legend.legend_handles:
            if isinstance(handle, PathCollection):
                handle.set_sizes([LEGEND_AREA])
                handle.set_alpha(1.0)
    return figure


def _title(comparison: Comparison) -> str:
    """The row with the lowest NFR, or those that share it."""
    best = [row for row in comparison.rows if "nfr" in row.best]
    several = len({row.section for row in comparison.rows}) > 1
    names = dict.fromkeys(f"{row.name} ({row.section})" if several else row.name for row in best)
    where = (
        f" at the validation error of {comparison.equal_error}" if comparison.equal_error is not None else ""
    )
    return f"Lowest NFR{where}: {' and '.join(names)}" if best else "Comparison"
