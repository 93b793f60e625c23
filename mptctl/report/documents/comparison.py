"""A comparison in a terminal, at 80 columns or more; plain text in a pipe."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mptctl.report.documents.comparison_wording import (
    BEST,
    CALIBRATION_SENTENCE,
    CALIBRATION_TITLES,
    DIGITS,
    TITLES,
    calibration_text,
    conclusion,
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
from mptctl.report.media.tables import make_table, say, words
from mptctl.studies.comparison import COLUMNS, CalibrationRow, Column, Comparison, ComparisonRow


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print one row for each method, with counts below the rates, and what the marks mean.

    Args:
        comparison: what is printed.
        console: where; its width is kept to.
    """
    for section in dict.fromkeys(row.section for row in comparison.rows):
        if section is not None:
            console.print(Text("\n"), words(section, "bold"), sep="")
        console.print(_table([row for row in comparison.rows if row.section == section], console))
        if apart := difference_rows(comparison, section):
            console.print(Text("\n"), words(differences_sentence(comparison)), sep="", highlight=False)
            console.print(_differences(apart, console))
    console.print()
    if comparison.rows:
        console.print(marks_sentence(comparison), highlight=False, markup=False)
    if comparison.calibration:
        console.print(_calibration_table(comparison.calibration, console))
        console.print(f"\n{CALIBRATION_SENTENCE}", highlight=False, markup=False)
    for line in remarks(comparison):
        console.print(words(line), highlight=False)
    if line := conclusion(comparison):
        say(words(line, "bold"), console)


def _calibration_table(rows: list[CalibrationRow], console: Console) -> Table:
    table = make_table(console, "old model", *CALIBRATION_TITLES.values())
    # Below the value: seven columns of deviations beside them are more than 80 characters.
    for row in rows:
        table.add_row(
            words(row.old), *(calibration_text(row, column, "\n± ") for column in CALIBRATION_TITLES)
        )
    return table


def _table(rows: list[ComparisonRow], console: Console) -> Table:
    # Cells are padded here: a column on the right would drop the space that a missing mark leaves.
    widths = {column: max(_width(column, row) for row in rows) for column in COLUMNS}
    titles = [title.rjust(widths[column]) for column, title in TITLES.items()]
    table = make_table(console, "method", *titles, "cost", left=titles)
    # Six columns in 80: with the two spaces between them that a pipe has, no deviation would fit.
    table.padding = (0, 1, 0, 0)
    for column in table.columns[1:]:
        column.no_wrap = True
    for row in rows:
        name = words(row.name)
        name.append(f"\n{seeds_text(row)}", style="dim")
        cost = Text(cost_text(row))
        cost.append(f"\n{parameters_text(row)}", style="dim")
        table.add_row(name, *(_cell(row, column, widths[column]) for column in COLUMNS), cost)
    return table


def _differences(rows: list[ComparisonRow], console: Console) -> Table:
    table = make_table(console, "method", *TITLES.values())
    for row in rows:
        cells = [
            Text(difference_text(row, column)).append(f"\n{interval_text(row, column)}", style="dim")
            for column in COLUMNS
        ]
        table.add_row(words(row.name), *cells)
    return table


def _width(column: Column, row: ComparisonRow) -> int:
    return max(len(_value(row, column)), len(counts_text(row, column)), len(TITLES[column]))


def _value(row: ComparisonRow, column: Column) -> str:
    return spread_text(getattr(row, column), DIGITS[column])


def _cell(row: ComparisonRow, column: Column, width: int) -> Text:
    sign = mark(row, column)
    cell = Text(f"{_value(row, column).rjust(width)}{sign or ' '}", style="bold" if sign == BEST else "")
    cell.append(f"\n{counts_text(row, column).rjust(width)}", style="not bold dim")
    return cell
