"""Arrays with names: of rows, which must be the same, and of columns, which are the classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.arrays import as_array
from mptctl.evaluation.reading.columns import as_objects, as_text, first

# What polars calls columns that nobody named.
_UNNAMED = "column_{}"
# A remedy for names that do not fit: without names, rows and columns are matched by position.
BY_PLACE = "or give arrays (.to_numpy()) that stand in one order"


@dataclass(frozen=True, eq=False)
class NamedArray:
    """An array with the names that its library keeps.

    Attributes:
        values: (N,) or (N, C).
        rows: (N,) names of rows, such as the index of pandas or a coordinate of xarray; None without names.
        columns: (C,) names of columns as text; None without names.
        numbered: True where `columns` count from 0, as libraries do if nobody gave names.
    """

    values: NDArray[Any]
    rows: Sequence[Any] | None = None
    columns: tuple[str, ...] | None = None
    numbered: bool = False


def named_array(value: Any, name: str) -> NamedArray:
    """Read an array or a table of any library, with its names.

    Args:
        value: (N,) or (N, C), as `as_array` takes it.
        name: what it is, for messages.

    Raises:
        DataError: it is no array, or a name of a column is neither an integer nor text.
    """
    values = as_array(value, name)
    columns = _column_names(value) if values.ndim == 2 else None
    if columns is None:
        return NamedArray(values, _row_names(value))
    counted = list(range(len(columns)))
    numbered = columns in (counted, [_UNNAMED.format(i) for i in counted])
    names = counted if numbered else columns
    text = as_text(as_objects(names), "columns", name)
    return NamedArray(values, _row_names(value), tuple(text.tolist()), numbered)


class RowNames:
    """The names of the samples' rows, which all tables with such names must have in one order.

    So rows are never matched by position against names. The first table with names sets them.
    """

    def __init__(self) -> None:
        self._names: Sequence[Any] | None = None
        self._whose = ""

    def checked(self, table: NamedArray, name: str) -> NDArray[Any]:
        """Return the (N,) or (N, C) values of a table; DataError where its rows have other names.

        Args:
            table: the table; one without names is always sound.
            name: what it is, for messages.
        """
        if table.rows is None:
            return table.values
        if self._names is None:
            self._names, self._whose = table.rows, name
        wanted, given = list(self._names), list(table.rows)
        if wanted != given:
            raise DataError(
                f"{name}: its index is not that of {self._whose} ({_describe_difference(given, wanted)}); "
                f"give both one index in one order, {BY_PLACE}"
            )
        return table.values


def order_columns(
    table: NamedArray, lists: Sequence[tuple[str, ...]], name: str, *, some: bool = False
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Bring logits with named columns into the order of the class list with these names.

    Args:
        table: (N, C) logits.
        lists: class lists that are known; the first one with the names of the columns is used.
        name: what the logits are, for messages.
        some: the columns may also be some of the classes of a list; they then keep their order.

    Returns:
        The logits, and the classes of their columns; None where the columns have no names.

    Raises:
        DataError: columns have names that are no classes, two columns have one name, or the columns count
            from 0 and the classes are these numbers in another order.
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
            index_of = {column: index for index, column in enumerate(columns)}
            return values[:, [index_of[name_of_class] for name_of_class in names]], names
    known = {each for names in lists for each in names}
    unknown = sorted(set(columns) - known)
    if not lists or (some and not unknown):
        return values, columns
    problem = f"only {len(columns)} of the classes"
    if unknown:
        problem = f"names that are no class: {first(unknown)}"
    raise DataError(f"{name}: its columns have {problem}; name them by class, {BY_PLACE}")


def _row_names(value: Any) -> Sequence[Any] | None:
    """Read the index of pandas or a similar library, or the coordinate of xarray's first dimension.

    Returns:
        The names; a `range` where they count from 0, and None where there are none.
    """
    index = _coordinate(value, 0) if hasattr(value, "dims") else getattr(value, "index", None)
    if index is None or not hasattr(index, "is_unique") or not hasattr(index, "tolist"):
        return None
    counted = range(len(index))
    names: list[Any] = index.tolist()
    return counted if names == list(counted) else names


def _column_names(value: Any) -> list[Any] | None:
    """Read the names of a table's columns, of any type; None where there are none."""
    if hasattr(value, "column_names"):  # Arrow's tables, whose `columns` are the columns themselves
        names = value.column_names
    elif hasattr(value, "dims"):
        names = _coordinate(value, 1)
    else:
        names = getattr(value, "columns", None)
    if names is None or callable(names):
        return None
    return list(names.tolist() if hasattr(names, "tolist") else names)


def _coordinate(value: Any, dimension: int) -> Any:
    """Read the index that xarray has for a dimension, by its number; None where there is none."""
    dims, indexes = value.dims, getattr(value, "indexes", {})
    return indexes.get(dims[dimension]) if dimension < len(dims) else None


def _describe_difference(given: Sequence[Any], wanted: Sequence[Any]) -> str:
    """Say in a few words how the names of rows differ from those that are wanted."""
    if len(given) != len(wanted):
        return f"{len(given)} rows for {len(wanted)}"
    known = set(wanted)
    unknown = [repr(row) for row in given if row not in known]
    if unknown:
        return f"{len(unknown)} of {len(given)} rows are not in it: {first(unknown)}"
    return "another order, or names that stand there twice"
