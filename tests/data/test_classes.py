"""Classes: their order, the split into old and new, mapping by name, and names for people."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptctl.data.class_labels import label_classes, notes_on_class_labels, read_class_labels
from mptctl.data.classes import ClassSplit, columns_for, label_map, split_classes
from mptctl.data.split import make_split, save_split
from mptctl.errors import CheckpointError, UsageError


@pytest.mark.parametrize(
    ("arguments", "old", "new"),
    [
        ({"old_fraction": 0.5}, "ab", "cde"),
        ({"old_names": ["d", "b"]}, "db", "ace"),
        ({"old_fraction": 1.0}, "abcde", ""),
    ],
)
def test_old_classes_are_the_first_ones_or_those_that_are_named(
    arguments: dict[str, object], old: str, new: str
) -> None:
    split = split_classes([*"abcde"], **arguments)  # type: ignore[arg-type]
    assert (split.old, split.new) == (tuple(old), tuple(new))


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
    # A cycle of three, which is not its own inverse.
    assert columns_for(["b", "c", "a"], ["a", "b", "c"], "old").tolist() == [2, 0, 1]


def test_classes_that_do_not_match_are_named() -> None:
    with pytest.raises(CheckpointError, match=r"old: .*knows beside the split c"):
        columns_for(["a", "b", "c"], ["a", "b"], "old")
    with pytest.raises(CheckpointError, match=r"old: .*does not know c; it knows beside the split x"):
        columns_for(["a", "x"], ["a", "c"], "old")


DIGITS = "0 zero\n1\tone, or unity\n\n" + "".join(f"{digit} digit\n" for digit in range(2, 10))


@pytest.mark.parametrize(
    ("text", "names", "notes"),
    [
        (DIGITS, {"0": "zero", "1": "one, or unity", "9": "digit"}, []),
        (
            DIGITS.replace("9 digit", "17 dozen"),
            {"0": "zero"},
            ["9 has no name and is shown by id", "1 id of the file is no class of the split"],
        ),
    ],
)
def test_names_of_classes_are_read_and_what_is_missing_or_unknown_is_noted(
    tmp_path: Path, text: str, names: dict[str, str], notes: list[str]
) -> None:
    (tmp_path / "map.txt").write_text(text)
    read = read_class_labels(tmp_path / "map.txt")
    split = label_classes(make_split("digits", run_root=tmp_path), read, tmp_path / "map.txt")
    assert split.file.class_labels is not None
    assert names.items() <= split.file.class_labels.items()
    assert notes_on_class_labels(split, read) == notes


def test_names_change_neither_the_split_nor_its_fingerprint(tmp_path: Path) -> None:
    before = make_split("digits", run_root=tmp_path)
    save_split(label_classes(before, {"0": "zero"}, tmp_path))
    after = make_split("digits", run_root=tmp_path)
    assert after.file.class_labels == {"0": "zero"}
    assert after.fingerprint == before.fingerprint
    assert after.classes.names == before.classes.names
