"""Arrays of any library as arrays of numpy: by what they offer, never by a library that is not there."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from mptctl.errors import DataError
from mptctl.evaluation.reading.arrays import as_array

NUMBERS = [3, 1, 2]
WORDS = ["cat", "dog", "cat"]
ROWS = [[0.5, 1.5], [2.0, -1.0], [0.0, 0.25]]


class OnlyDlpack:
    """An array that offers DLPack and nothing else, as some library may."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **keys: Any) -> Any:
        return self.array.__dlpack__(**keys)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class OnlyArrow:
    """Arrow's own protocol and nothing else, as libraries built on other Arrows have it."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.array.__arrow_c_array__(requested_schema)


class OnlyTolist:
    def tolist(self) -> list[int]:
        return NUMBERS


# Values of each library, and the list that each of them is.
SAME: list[tuple[list[Any], list[Any]]] = [
    (NUMBERS, [
        NUMBERS, tuple(NUMBERS), iter(NUMBERS), np.array(NUMBERS), torch.tensor(NUMBERS), OnlyTolist(),
        [torch.tensor(i) for i in NUMBERS], [np.int64(i) for i in NUMBERS], pd.Series(NUMBERS, index=[7, 8, 9]),
        pd.Series(NUMBERS, dtype="Int64"), pd.Series(NUMBERS).astype("category"), pa.array(NUMBERS),
        pa.chunked_array([NUMBERS[:1], NUMBERS[1:]]), OnlyDlpack(np.array(NUMBERS)), OnlyArrow(pa.array(NUMBERS)),
    ]),
    (WORDS, [
        WORDS, np.array(WORDS), np.array(WORDS, dtype=object), pd.Series(WORDS), pd.Series(WORDS).astype("category"),
        pd.Index(WORDS), pa.array(WORDS), pa.array(WORDS).dictionary_encode(), pa.chunked_array([WORDS]),
    ]),
    (ROWS, [
        ROWS, np.array(ROWS), torch.tensor(ROWS, requires_grad=True), torch.tensor(ROWS, dtype=torch.bfloat16),
        list(torch.tensor(ROWS)), [np.array(row) for row in ROWS], pd.DataFrame(ROWS), pd.Series(ROWS), pa.array(ROWS),
        pa.array(ROWS, pa.list_(pa.float32(), 2)), pa.FixedShapeTensorArray.from_numpy_ndarray(np.array(ROWS)),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "same"),
    [
        pytest.param(value, same, id=f"{type(value).__name__} of {type(same[0]).__name__}")
        for same, values in SAME
        for value in values
    ],
)
def test_whole_numbers_names_and_logits_come_as_they_are(value: Any, same: list[Any]) -> None:
    found = as_array(value, "labels")
    assert found.tolist() == same
    assert found.shape == np.array(same).shape
    assert (found.dtype.kind == "f") == (same is ROWS)


def test_whole_numbers_in_lists_of_logits_are_numbers_all_the_same() -> None:
    """A list knows no type: [1, 0.5] is as good a row of logits as [1.0, 0.5]."""
    found = as_array([[1, 0], [0, 1]], "new")
    assert (found.dtype.kind, found.tolist()) == ("f", [[1.0, 0.0], [0.0, 1.0]])


def test_an_array_of_numpy_is_not_copied() -> None:
    logits = np.array(ROWS)
    assert as_array(logits, "new") is logits


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "old: nothing"),
        ("cat", "old: a text"),
        ({"a": 1}, "old: a dict"),
        ({"cat", "dog"}, "old: a set"),
        (3, "old: of int"),
        ([[1.0, 2.0], [1.0]], "old: rows of different lengths"),
        ([torch.zeros(2), torch.zeros(3)], "old: rows of different lengths"),
        (np.zeros((2, 2, 2)), "old: has shape (2, 2, 2)"),
        (np.float64(3.0), "old: has shape ()"),
        (torch.zeros(2, device="meta"), "old: "),
    ],
)
def test_what_is_no_array_is_refused_in_one_line(value: Any, message: str) -> None:
    with pytest.raises(DataError) as error:
        as_array(value, "old")
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert "; " in str(error.value)


@pytest.mark.parametrize("library", ["jax.numpy", "polars"])
def test_libraries_that_may_be_there(library: str) -> None:
    module = pytest.importorskip(library, reason=f"{library} is not installed (make test-integrations)")
    make = module.asarray if library == "jax.numpy" else module.Series
    assert [int(i) for i in as_array(make(NUMBERS), "labels")] == NUMBERS
    if library == "polars":
        assert as_array(make(WORDS), "labels").tolist() == WORDS
        assert as_array(module.DataFrame(np.array(ROWS)), "new").tolist() == ROWS
        assert as_array(make(ROWS), "new").tolist() == ROWS
    else:
        assert as_array(make(ROWS, dtype="bfloat16"), "new").tolist() == ROWS
    assert library in sys.modules
