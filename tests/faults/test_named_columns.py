"""Row 54: arrays and tables in Python whose rows, columns or masks have a meaning of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import mptctl
from mptctl.errors import DataError


def two_columns(order: list[str]) -> Any:
    """Logits that answer `cat` always, as a table whose columns are named."""
    return pd.DataFrame({"cat": [2.0] * 4, "dog": [1.0] * 4})[order]


PETS = ["cat", "cat", "dog", "dog"]


def test_row_54_a_mask_counts() -> None:
    masked = np.ma.masked_array([0, 1, 1, 1], mask=[False, True, False, False])
    rows = [np.ma.masked_array([0.0, 1.0], mask=[False, i == 2]) for i in range(4)]
    for odd in (masked, rows, [0, 1, np.ma.masked, 1], np.ma.masked_array(np.eye(4), mask=np.eye(4) > 0)):
        with pytest.raises(DataError, match="masked"):
            mptctl.evaluate([0, 1, 1, 1], old=[0, 1, 1, 1], new=odd)
    unmasked = np.ma.masked_array([0, 1, 1, 1], mask=False)
    assert mptctl.evaluate([0, 1, 1, 1], old=unmasked, new=[0, 1, 1, 0]).counts.negative_flips == 1


@pytest.mark.parametrize("order", [["cat", "dog"], ["dog", "cat"]])
def test_row_54_columns_follow_classes_by_name(order: list[str]) -> None:
    for classes in (["cat", "dog"], ["dog", "cat"]):
        report = mptctl.evaluate(PETS, old=PETS, new=two_columns(order), classes=classes)
        assert report.counts.negative_flips == 2  # the dogs, and never the cats
        old = mptctl.evaluate(PETS, old=two_columns(order), new=PETS, old_classes=classes)
        assert old.counts.positive_flips == 2
    # Without a list the names are the classes.
    assert mptctl.evaluate(PETS, old=PETS, new=two_columns(order)).counts.negative_flips == 2


def test_row_54_columns_of_other_names_are_refused() -> None:
    named = two_columns(["cat", "dog"]).rename(columns={"dog": "emu"})
    with pytest.raises(DataError, match="names that are no class: emu"):
        mptctl.evaluate(PETS, old=PETS, new=named, classes=["cat", "dog"])
    with pytest.raises(DataError, match="only 2 of the classes"):
        mptctl.evaluate(PETS, old=PETS, new=two_columns(["cat", "dog"]), classes=["cat", "dog", "emu"])
    counted = pd.DataFrame(np.eye(3))
    with pytest.raises(DataError, match="these numbers in another order"):
        mptctl.evaluate([0, 1, 2], old=[0, 1, 2], new=counted, classes=[2, 0, 1])
    # Columns that nobody named stand in the order of the classes.
    assert mptctl.evaluate(["a", "b", "c"], old=list("abc"), new=counted, classes=list("abc")).nfr == 0


@pytest.mark.parametrize(
    ("labels", "new", "said"),
    [
        (pd.Series(PETS, index=[5, 6, 7, 8]), pd.Series(PETS), "4 of 4 rows are not in it: 0, 1, 2 and 1 more"),
        (pd.Series(PETS, index=[5, 5, 7, 8]), pd.Series(PETS, index=[8, 7, 5, 5]), "names that stand there twice"),
        (pd.Series(PETS), pd.Series(PETS[:3]), "3 rows for 4"),
        (pd.Series(PETS, index=[5, 6, 7, 8]), pd.Series(PETS, index=[8, 7, 6, 5]), "another order"),
    ],
)  # fmt: skip
def test_row_54_rows_of_another_index_are_refused(labels: Any, new: Any, said: str) -> None:
    with pytest.raises(DataError, match="its index is not that of labels") as error:
        mptctl.evaluate(labels, old=PETS, new=new)
    assert said in str(error.value)


def test_row_54_two_orders_of_rows_beside_labels_without_an_index() -> None:
    old, new = pd.Series(PETS, index=[5, 6, 7, 8]), pd.Series(PETS[::-1], index=[8, 7, 6, 5])
    with pytest.raises(DataError, match=r"new: its index is not that of old \(another order"):
        mptctl.evaluate(PETS, old=old, new=new)
    assert mptctl.evaluate(PETS, old=old, new=new.sort_index()).nfr == 0


@pytest.mark.parametrize("library", ["polars", "xarray", "jax.numpy", "torch"])
def test_row_54_other_libraries(library: str) -> None:
    module = pytest.importorskip(library, reason=f"{library} is not installed (make test-integrations)")
    logits = np.array([[2.0, 1.0]] * 4, dtype=np.float32)
    if library == "polars":
        named = module.DataFrame({"dog": [1.0] * 4, "cat": [2.0] * 4})
        assert mptctl.evaluate(PETS, old=PETS, new=named, classes=["cat", "dog"]).counts.negative_flips == 2
        with pytest.raises(DataError, match="emu"):
            mptctl.evaluate(PETS, old=PETS, new=named.rename({"dog": "emu"}), classes=["cat", "dog"])
        unnamed = module.DataFrame(logits)
        assert mptctl.evaluate(PETS, old=PETS, new=unnamed, classes=["cat", "dog"]).counts.negative_flips == 2
        return
    if library == "xarray":
        sides = {"sample": [10, 11, 12, 13], "class": ["dog", "cat"]}
        named = module.DataArray(logits[:, ::-1], coords=sides, dims=("sample", "class"))
        labels = module.DataArray(PETS, coords={"sample": [10, 11, 12, 13]}, dims="sample")
        assert mptctl.evaluate(labels, old=PETS, new=named).counts.negative_flips == 2
        with pytest.raises(DataError, match="its index is not that of labels"):
            mptctl.evaluate(labels[::-1], old=PETS, new=named)
        return
    given = (module.tensor if library == "torch" else module.asarray)(logits)
    if library == "torch":
        given = given.requires_grad_()
    assert mptctl.evaluate(PETS, old=PETS, new=given, classes=["cat", "dog"]).counts.negative_flips == 2
