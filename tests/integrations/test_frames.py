"""Frames of pandas, polars and Arrow give what their columns give as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import mptctl
from mptctl.errors import DataError, UsageError

N = 400
RANDOM = np.random.default_rng(2)
LABELS = np.array(["cat", "dog", "fox"])[RANDOM.integers(0, 3, N)]
OLD = np.where(RANDOM.random(N) < 0.9, LABELS, "cat")
NEW = np.where(RANDOM.random(N) < 0.9, LABELS, "dog")
COLUMNS = {
    "name": [f"n{i}" for i in range(N)],
    "y": LABELS,
    "p_prod": OLD,
    "p_cand": NEW,
    "country": np.where(RANDOM.random(N) < 0.5, "de", "fr"),
}


def polars(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(
        {name: list(values) for name, values in columns.items()}
    )


FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "arrow": lambda columns: pa.table({name: list(values) for name, values in columns.items()}),
    "polars": polars,
}


@pytest.fixture(params=FRAMES)
def make(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    return FRAMES[request.param]


@pytest.fixture
def frame(make: Callable[[dict[str, Any]], Any]) -> Any:
    return make(COLUMNS)


def compared(frame: Any, **asked: Any) -> Any:
    return mptctl.evaluate(
        frame, label="y", old="p_prod", new="p_cand", id="name", old_classes="all", **asked
    )


def test_rows_of_a_frame_and_of_the_ids_of_arrays_may_be_in_any_order(make: Any, frame: Any) -> None:
    order = np.random.default_rng(1).permutation(N)
    shuffled = make({name: np.asarray(values)[order] for name, values in COLUMNS.items()})
    arrays = mptctl.evaluate(LABELS, old=OLD, new=NEW, ids=COLUMNS["name"], old_classes="all")
    assert compared(shuffled).model_dump() == arrays.model_dump()
    beside = mptctl.evaluate(frame, label="y", old="p_prod", new=NEW, old_classes="all")  # an array
    assert beside.counts == arrays.counts


def test_slices_are_columns_of_the_frame_or_of_metadata_in_any_order(make: Any, frame: Any) -> None:
    own = compared(frame, by=["country"])
    by_hand = pd.DataFrame(COLUMNS).assign(
        flip=(OLD == LABELS) & (NEW != LABELS)).groupby("country")["flip"].mean()  # fmt: skip
    assert {row.by["country"]: row.nfr for row in own.slices} == pytest.approx(by_hand.to_dict())
    order = RANDOM.permutation(N)
    names, lands = (np.asarray(COLUMNS[name])[order] for name in ("name", "country"))
    other = make({"name": names, "land": lands})
    beside = compared(frame, by=["land"], metadata=other)
    assert {row.by["land"]: row.nfr for row in beside.slices} == pytest.approx(by_hand.to_dict())
    # A column may also be named by text, in which spaces do not count.
    assert compared(frame, by="country").slices == own.slices
    assert compared(frame, by="country, y").slices == compared(frame, by=["country,y"]).slices


def test_columns_that_are_not_there_are_said(frame: Any) -> None:
    with pytest.raises(UsageError, match=r"old='p_prd': no column of the frame, .*; did you mean p_prod"):
        mptctl.evaluate(frame, label="y", old="p_prd", new="p_cand")
    with pytest.raises(UsageError, match="label: names a column where a frame"):
        mptctl.evaluate(LABELS, label="y", old=OLD, new=NEW)
    with pytest.raises(UsageError, match="give label='COLUMN' too"):
        mptctl.evaluate(LABELS, id="name", old=OLD, new=NEW)
    with pytest.raises(UsageError, match=r"by='contry': no column of the frame, .*; did you mean country"):
        compared(frame, by=["contry"])
    with pytest.raises(DataError, match=r"^by country: no such column.* in metadata FILE$"):
        mptctl.evaluate(LABELS, old=OLD, new=NEW, by=["country"])
    with pytest.raises(UsageError, match="metadata: neither a frame"):
        compared(frame, by=["country"], metadata={"country": ["de"]})


def test_columns_of_pandas_whose_names_are_numbers_or_stand_twice() -> None:
    numbered = pd.DataFrame(COLUMNS).set_axis(range(5), axis=1)
    report = mptctl.evaluate(numbered, label="1", old="2", new="3", id="0", by="4", old_classes="all")
    by_name = compared(pd.DataFrame(COLUMNS), by="country")
    assert [row.negative_flips for row in report.slices] == [row.negative_flips for row in by_name.slices]
    twice = pd.concat([pd.DataFrame(COLUMNS), pd.DataFrame(COLUMNS)[["country"]]], axis=1)
    with pytest.raises(UsageError, match="by='country': the frame has several columns of this name"):
        compared(twice, by="country")


def test_a_column_of_mixed_values_is_refused_only_where_slices_are_made_of_it() -> None:
    mixed = pd.DataFrame(COLUMNS).assign(mixed=[1, "a"] * (N // 2))
    with pytest.raises(DataError, match=r"column 'mixed': .*; make its values text"):
        compared(mixed, by="mixed")
    assert compared(mixed, by="country", metadata=mixed[["name", "mixed"]]).slices


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"must_keep": 1}, "must_keep=1: is no list"),
        ({"by": [("a", "b")]}, "is no text; cross columns as in"),
    ],
)
def test_an_argument_of_another_type_is_one_line(given: dict[str, Any], said: str) -> None:
    labels = ["cat", "dog"]
    with pytest.raises(UsageError) as caught:
        mptctl.evaluate(labels, old=labels, new=labels, old_classes=labels, **given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
