"""Which predictions files can be read, by suffix: `read_csv` of `csv_file.py` beside this file reads `.csv`.

Light: the command line names the suffixes in its help.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    # The arrays that a file has, by the names of `columns.COLUMNS`.
    Columns = dict[str, NDArray[Any]]


def _reader(form: str) -> Callable[[Path], Columns]:
    """The reader of a form, imported when a file is read: pyarrow is slow to import, and most files are archives."""

    def read(path: Path) -> Columns:
        module = import_module(f"mptctl.evaluation.{form}_file")
        columns: Columns = getattr(module, f"read_{form}")(path)
        return columns

    return read


_FORMS = [
    m.name.removesuffix("_file")
    for m in iter_modules([str(Path(__file__).parent)])
    if m.name.endswith("_file")
]
READERS: dict[str, Callable[[Path], Columns]] = {f".{form}": _reader(form) for form in _FORMS}
SUFFIXES = ", ".join(READERS)


def is_predictions_file(path: Path) -> bool:
    """Whether there is a reader for this path, by its ending."""
    return path.suffix.lower() in READERS
