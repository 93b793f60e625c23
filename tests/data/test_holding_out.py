"""Groups: none lies in two parts, classes are held out as far as groups allow, and no class as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from mptctl.data.holding_out import find_torn_groups, hold_out_groups
from mptctl.data.manifest import BAD, TEST, TRAIN, VAL
from mptctl.data.split import load_split, make_split
from mptctl.errors import DataError

ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), min_size=1, max_size=200)


@given(ROWS, st.floats(0, 0.9), st.integers(0, 3))
def test_no_group_is_torn_and_no_class_is_held_out_whole(
    rows: list[tuple[int, int]], fraction: float, seed: int
) -> None:
    labels = np.array([label for label, _ in rows], dtype=np.int32)
    groups = np.array([f"group {group}" for _, group in rows])
    held = hold_out_groups(labels, groups, fraction, seed, 7)
    for group in np.unique(groups):
        assert len(np.unique(held[groups == group])) == 1
    for label in np.unique(labels):
        assert not held[labels == label].all()


@given(ROWS, st.floats(0.05, 0.5))
def test_classes_come_within_half_of_their_largest_group(
    rows: list[tuple[int, int]], fraction: float
) -> None:
    labels = np.array([label for label, _ in rows], dtype=np.int32)
    groups = np.array([f"{label}-{group}" for label, group in rows])  # each of one class
    held = hold_out_groups(labels, groups, fraction, 0, 7)
    for label in np.unique(labels):
        of_class = labels == label
        largest = np.unique(groups[of_class], return_counts=True)[1].max()
        assert abs(held[of_class].sum() - fraction * of_class.sum()) <= largest / 2 + 1e-9


def test_the_draw_depends_on_seed_and_name_alone() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600).astype(np.int32)
    groups = np.array(
        [f"{label}-{group}" for label, group in zip(labels, rng.integers(0, 60, 600), strict=True)]
    )
    held = hold_out_groups(labels, groups, 0.2, 0, 7)
    shuffled = rng.permutation(600)
    assert (hold_out_groups(labels[shuffled], groups[shuffled], 0.2, 0, 7) == held[shuffled]).all()
    assert (hold_out_groups(labels, groups, 0.2, 1, 7) != held).any()
    assert 0.15 < held.mean() < 0.25


def test_pictures_without_a_group_are_groups_of_their_own() -> None:
    labels = np.zeros(100, dtype=np.int32)
    held = hold_out_groups(labels, np.array([""] * 100), 0.25, 0, 7)
    assert held.sum() == 25


def test_groups_that_the_source_tears_are_named_or_kept_out_of_the_earlier_part() -> None:
    parts = np.array([TRAIN, TRAIN, TEST, TRAIN, VAL, BAD, TEST], dtype=np.uint8)
    groups = np.array(["a", "b", "a", "c", "c", "b", "d"])
    with pytest.raises(
        DataError, match=r"--group video: 2 groups .*\(a in train and test, c in train and val\)"
    ):
        find_torn_groups(parts, groups, "video", quarantine=False)
    out = find_torn_groups(parts, groups, "video", quarantine=True)
    assert np.flatnonzero(out).tolist() == [0, 3]
    assert not find_torn_groups(parts, np.array(list("abcdefg")), "video", quarantine=False).any()


def write_groups(path: Path, split_folder: Path, group_of: Callable[[int], str]) -> list[str]:
    """A table of the group of each picture of a folder, in the order of its ids; gives the ids."""
    ids = sorted(str(each.relative_to(split_folder)) for each in split_folder.rglob("*.jpg"))
    lines = [f"{name},{group_of(number)}" for number, name in enumerate(ids)]
    path.write_text("id,patient\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return ids


@given(st.lists(st.integers(0, 14), min_size=56, max_size=56), st.floats(0.05, 0.6), st.integers(0, 2))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_group_of_a_split_is_in_two_parts(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, numbers: list[int], fraction: float, seed: int
) -> None:
    root = tmp_path_factory.mktemp("grouped")
    ids = write_groups(root / "groups.csv", folder, lambda number: f"p{numbers[number]}")
    keys = {"run_root": root, "data_root": folder, "val_fraction": fraction, "seed": seed}
    try:
        split = make_split(
            "imagefolder",
            group="patient",
            metadata=root / "groups.csv",
            on_bad="quarantine",
            **keys,  # type: ignore[arg-type]
        )
    except DataError:
        reject()  # all training pictures of a class are of groups of the test part
    group_of = dict(zip(ids, numbers, strict=True))
    of_part = [
        {group_of[name] for name in split.ids(split.indices(part)).tolist()}
        for part in ("train", "val", "test")
    ]
    assert not of_part[0] & of_part[1]
    assert not of_part[2] & (of_part[0] | of_part[1])
    assert load_split(root).fingerprint == split.fingerprint
