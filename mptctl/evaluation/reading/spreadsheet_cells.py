"""Cells of CSV tables that people open in a spreadsheet: text is written so that none is a formula."""

from __future__ import annotations

import re

from mptctl.errors import inert

# Text that a spreadsheet takes for a formula, and such text with apostrophes before it.
_FORMULA = re.compile(r"'*[=+\-@]")
# A cell to which `as_cell` added an apostrophe; the group is the text without it.
WRITTEN_FORMULA = r"^'('*[=+\-@])"
# The columns of a list of flips. A CSV file whose header begins with these was written with `as_cell`.
FLIP_COLUMNS = ("id", "label", "old", "new", "new_class", "old_confidence", "new_confidence")


def as_cell(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would take for a formula; reading takes it off.

    Characters that a reader would not see as they stand become their escapes (`inert`), for good.

    >>> as_cell("=1+1"), as_cell("'-x"), as_cell("cat")
    ("'=1+1", "''-x", 'cat')
    """
    text = inert(text)
    return f"'{text}" if _FORMULA.match(text) else text
