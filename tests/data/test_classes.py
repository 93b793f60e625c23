"""Class order, the split into old and new, and mapping by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptctl.data.classes import ClassSplit, columns_for, label_map, split_classes
from mptctl.errors import CheckpointError, UsageError


def test_given_order_takes_the_first_classes_as_old() -> None:
    split = split_classes(["a", "b", "c", "d", "e"], old_fraction=0.5)
    assert (split.old, split.new) == (("a", "b"), ("c", "d", "e"))


def test_old_classes_by_name_come_first_in_the_order_of_the_file() -> None:
    split = split_classes(["a", "b", "c", "d"], old_names=["d", "b"])
    assert split.names == ("d", "b", "a", "c")
    assert split.num_old == 2


def test_a_fraction_of_one_is_an_update_without_new_classes() -> None:
    split = split_classes(["a", "b"], old_fraction=1.0)
    assert split.new == ()


def test_seven_percent_of_a_hundred_classes_are_seven() -> None:
    assert split_classes([str(i) for i in range(100)], old_fraction=0.07).num_old == 7


def test_random_order_depends_on_the_seed_alone() -> None:
    names = [str(i) for i in range(20)]
    one, same, other = (split_classes(names, order="random", seed=s).names for s in (3, 3, 4))
    assert one == same != other


@given(st.integers(1, 60), st.floats(0.02, 1.0), st.integers(0, 99))
def test_every_class_is_either_old_or_new(count: int, fraction: float, seed: int) -> None:
    names = [f"c{i}" for i in range(count)]
    if int(count * fraction + 1e-9) == 0:
        with pytest.raises(UsageError, match="no old class"):
            split_classes(names, old_fraction=fraction)
        return
    split = split_classes(names, old_fraction=fraction, order="random", seed=seed)
    assert sorted(split.old + split.new) == sorted(names)
    assert split.num_old == int(count * fraction + 1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"old_fraction": 0.0}, "above 0"),
        ({"old_fraction": 1.5}, "at most 1"),
        ({"old_names": ["x"]}, "x not among"),
        ({"old_names": []}, "names no class"),
        ({"old_names": ["a", "a"]}, "twice"),
        ({"order": "sorted"}, "unknown"),
    ],
)
def test_wrong_splits_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        split_classes(["a", "b"], **arguments)  # type: ignore[arg-type]


def test_more_old_classes_than_classes_are_refused() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        ClassSplit(("a",), 2)


def test_labels_map_by_name_and_unknown_ones_to_minus_one() -> None:
    assert label_map(["a", "b", "c"], ["c", "a"]).tolist() == [1, -1, 0]


def test_columns_follow_the_wanted_order() -> None:
    assert columns_for(["b", "a", "c"], ["a", "b", "c"], "old").tolist() == [1, 0, 2]
    # A cycle of three, which is not its own inverse.
    assert columns_for(["b", "c", "a"], ["a", "b", "c"], "old").tolist() == [2, 0, 1]


def test_a_model_of_more_classes_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"old: .*knows beside the split c"):
        columns_for(["a", "b", "c"], ["a", "b"], "old")


def test_classes_that_do_not_match_are_named() -> None:
    with pytest.raises(CheckpointError, match=r"old: .*does not know c; it knows beside the split x"):
        columns_for(["a", "x"], ["a", "c"], "old")
