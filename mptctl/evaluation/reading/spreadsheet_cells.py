"""Text in CSV tables for people, in which no cell is a formula; predictions stay as they are."""

from __future__ import annotations

import re

# Text that a spreadsheet takes for a formula, also with apostrophes before it already.
_FORMULA = re.compile(r"'*[=+\-@]")
# The columns of a list of flips; a table with this header was written by us.
FLIP_COLUMNS = ("id", "label", "old", "new", "new_class", "old_confidence", "new_confidence", "cause")


def as_cell(text: str) -> str:
    """The text with an apostrophe before it where a spreadsheet would compute it (`from_cell_sql`).

    >>> as_cell("=1+1"), as_cell("'-x"), as_cell("cat")
    ("'=1+1", "''-x", 'cat')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def from_cell_sql(column: str) -> str:
    """SQL of the text that `as_cell` was given, of a column in DuckDB."""
    return f"CASE WHEN regexp_matches({column}, '^''+[=+@-]') THEN {column}[2:] ELSE {column} END"
