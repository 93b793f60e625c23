"""A split holds what it says it holds."""

from __future__ import annotations

from pathlib import Path

from mptctl.data.split import make_split
from mptctl.data.split_summary import summarise


def test_counts_of_old_and_new_classes_add_up(tmp_path: Path, folder: Path) -> None:
    split = make_split(
        "imagefolder", run_root=tmp_path, data_root=folder, old_names=["class2"], val_fraction=0.2, seed=4
    )
    found = summarise(split, kept=False)
    assert (found.old_classes, found.new_classes) == (["class2"], ["class0", "class1", "class3"])
    assert (found.num_old, found.num_new, found.seed, found.kept) == (1, 3, 4, False)
    counts = {part: (c.old, c.new, c.all) for part, c in found.parts.items()}
    assert counts == {"train": (8, 24, 32), "val": (2, 6, 8), "test": (4, 12, 16)}
    assert found.path == str(tmp_path / "split.json")
    assert found.fingerprint == split.fingerprint


def test_a_validation_part_that_rounds_to_nothing_is_said_with_what_would_hold_out_one(
    tmp_path: Path, folder: Path
) -> None:
    """Each class has 10 training pictures, of which 0.04 is 0.4 of a picture and 0.05 is rounded to one."""
    keys = {"data_root": folder, "overwrite": True}
    none = make_split("imagefolder", run_root=tmp_path, val_fraction=0.04, **keys)  # type: ignore[arg-type]
    (note,) = (text for text in summarise(none, kept=False).notes if text.startswith("warning"))
    assert note == (
        "warning: --val-fraction 0.04 of at most 10 training pictures a class rounds to none, so there is no "
        "validation part; hold out at least 0.05"
    )
    for fraction, held_out in ((0.05, 4), (0.0, 0)):
        made = make_split("imagefolder", run_root=tmp_path, val_fraction=fraction, **keys)  # type: ignore[arg-type]
        assert len(made.indices("val")) == held_out
        assert not any("rounds to none" in text for text in summarise(made, kept=False).notes)
