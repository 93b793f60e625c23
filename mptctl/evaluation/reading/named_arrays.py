"""Names that tables bring with their numbers: of rows, which join them, and of columns, which are classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.arrays import as_array
from mptctl.evaluation.reading.columns import as_text, first

# Name of polars for columns that nobody named.
_UNNAMED = "column_{}"
BY_PLACE = "or give arrays (.to_numpy()) that stand in one order"


@dataclass(frozen=True, eq=False)
class NamedArray:
    """An array, and the names that its library keeps.

    Attributes:
        values: (N,) or (N, C).
        rows: (N,) names of rows: the index of pandas, a coordinate of xarray; None where there is none.
        columns: (C,) names of columns as text; None where there is none.
        numbered: `columns` count from 0, as libraries do where nobody gave a name.
    """

    values: NDArray[Any]
    rows: Sequence[Any] | None = None
    columns: tuple[str, ...] | None = None
    numbered: bool = False


def named_array(value: Any, name: str) -> NamedArray:
    """An array of any library with its names; DataError as `as_array`, which it calls."""
    values = as_array(value, name)
    columns = _column_names(value) if values.ndim == 2 else None
    if columns is None:
        return NamedArray(values, _row_names(value))
    counted = list(range(len(columns)))
    numbered = columns in (counted, [_UNNAMED.format(i) for i in counted])
    names = counted if numbered else columns
    text = as_text(np.array([*names, None], dtype=object)[:-1], "columns", name)
    return NamedArray(values, _row_names(value), tuple(text.tolist()), numbered)


class RowOrder:
    """Brings tables with named rows into the order of the labels.

    Nothing is matched by position where names say otherwise: names of one order go together as they stand,
    the same unique names in another order are joined, and all else is refused. Where the labels have no
    names, all tables that have some must have them in one order, which is then the labels'.
    """

    def __init__(self) -> None:
        self._names: Sequence[Any] | None = None
        self._whose = ""

    def in_order(self, table: NamedArray, name: str) -> NDArray[Any]:
        """(N,) or (N, C) values in the order of the labels; of the labels, which come first, as they are.

        Raises:
            DataError: rows of other names, or of names that stand there twice, in another order.
        """
        if table.rows is None:
            return table.values
        if self._names is None:
            self._names, self._whose = table.rows, name
            return table.values
        wanted, found = self._names, table.rows
        if wanted == found or list(wanted) == list(found):
            return table.values
        place = {row: i for i, row in enumerate(found)}
        if set(wanted) != place.keys() or len(place) < len(found) or len(wanted) != len(found):
            raise DataError(
                f"{name}: its index is not that of {self._whose} ({_unlike(found, wanted)}); give both one "
                f"index, {BY_PLACE}"
            )
        if self._whose != "labels":
            raise DataError(
                f"{name}: its index stands in another order than that of {self._whose}, and the labels have "
                f"none; give labels with that index, {BY_PLACE}"
            )
        return table.values[[place[row] for row in wanted]]


def columns_of(
    table: NamedArray, lists: Sequence[tuple[str, ...]], name: str, *, some: bool = False
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Logits in the order of the list of classes that has the names of their columns, and that list.

    Args:
        table: (N, C) logits.
        lists: classes that may be meant.
        name: for messages.
        some: the columns may be some of the classes; the list is the columns' names then.

    Returns:
        The logits, and what their columns are called; None where they have no names.

    Raises:
        DataError: columns of other names, or one name twice.
    """
    values, columns = table.values, table.columns
    if columns is None:
        return values, None
    if table.numbered:
        if any(set(names) == set(columns) and names != columns for names in lists):
            raise DataError(
                f"{name}: its columns count from 0, and the classes are these numbers in another order; name "
                f"the columns by class, {BY_PLACE}"
            )
        return values, None
    if len(set(columns)) < len(columns):
        raise DataError(f"{name}: two of its columns have one name; name each by its class")
    for names in lists:
        if set(names) == set(columns):
            place = {column: i for i, column in enumerate(columns)}
            return values[:, [place[each] for each in names]], names
    known = {each for names in lists for each in names}
    if lists and not (some and known.issuperset(columns)):
        strange = sorted(set(columns) - known)
        said = (
            f"names that are no class: {first(strange)}" if strange else f"only {len(columns)} of the classes"
        )
        raise DataError(f"{name}: its columns have {said}; name them by class, {BY_PLACE}")
    return values, columns


def _row_names(value: Any) -> Sequence[Any] | None:
    """The index of pandas and of libraries made like it, or the coordinate of xarray's first dimension."""
    index = _coordinate(value, 0) if hasattr(value, "dims") else getattr(value, "index", None)
    if index is None or not hasattr(index, "is_unique") or not hasattr(index, "tolist"):
        return None
    counted = range(len(index))
    names: list[Any] = index.tolist()
    return counted if names == list(counted) else names


def _column_names(value: Any) -> list[Any] | None:
    """Names of a table's columns, of whatever type they are there."""
    if hasattr(value, "dims"):
        names = _coordinate(value, 1)
    else:
        names = getattr(value, "columns", getattr(value, "column_names", None))
    if hasattr(value, "column_names"):  # Arrow's tables, whose `columns` are the columns themselves
        names = value.column_names
    if names is None or callable(names):
        return None
    return list(names.tolist() if hasattr(names, "tolist") else names)


def _coordinate(value: Any, dimension: int) -> Any:
    """The names that xarray has for the places along a dimension; None where it has none."""
    dims, indexes = value.dims, getattr(value, "indexes", {})
    return indexes.get(dims[dimension]) if dimension < len(dims) else None


def _unlike(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    """The difference of two indexes, in a few words."""
    if len(found) != len(wanted):
        return f"{len(found)} rows for {len(wanted)}"
    known = set(wanted)
    if strange := [repr(row) for row in found if row not in known]:
        return f"{len(strange)} of {len(found)} rows are not in it: {first(strange)}"
    return "names that stand there twice"
