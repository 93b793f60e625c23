"""Classes: their order, the split into old and new, mapping by name, and names for people."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptctl.data.class_labels import choose_class_labels, label_classes, read_class_labels
from mptctl.data.classes import ClassSplit, columns_for, label_map, split_classes
from mptctl.data.split import load_split, make_split
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


CLASSES = ("n01641577", "n01644900", "n01440764")


def read_and_choose(path: Path) -> tuple[dict[str, str], list[str]]:
    """Read a file, and choose the names of these classes from it."""
    return choose_class_labels(read_class_labels(path), CLASSES, path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("map.txt", "n01641577 bullfrog, Rana catesbeiana\nn01644900 tailed frog\nn01440764 tench\n"),
        ("map.tsv", "n01641577\tbullfrog, Rana catesbeiana\nn01644900\ttailed frog\n\nn01440764\ttench\n"),
    ],
)
def test_ids_and_names_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    labels, notes = read_and_choose(tmp_path / name)
    assert labels == {
        "n01641577": "bullfrog, Rana catesbeiana", "n01644900": "tailed frog", "n01440764": "tench"
    }  # fmt: skip
    assert notes == []


def test_what_is_missing_or_unknown_is_noted(tmp_path: Path) -> None:
    (tmp_path / "map.txt").write_text("n01641577 crane\nn01644900 crane\nn09999999 car\n")
    assert read_and_choose(tmp_path / "map.txt")[1] == [
        "n01440764 has no name and is shown by id",
        "1 id of the file is no class of the split",
    ]
    (tmp_path / "map.txt").write_text("frog n01641577\n")
    with pytest.raises(UsageError, match="none of its 1 ids is a class of the split, such as n01641577"):
        read_and_choose(tmp_path / "map.txt")


def test_names_change_neither_the_split_nor_its_fingerprint(tmp_path: Path) -> None:
    split = make_split("digits", run_root=tmp_path)
    before = load_split(tmp_path)
    label_classes(split, {"0": "zero"})
    after = load_split(tmp_path)
    assert after.file.class_labels == {"0": "zero"}
    assert before.file.class_labels is None
    assert after.fingerprint == before.fingerprint
    assert after.classes.names == before.classes.names
    kept = make_split("digits", run_root=tmp_path)
    assert kept.file.class_labels == {"0": "zero"}
