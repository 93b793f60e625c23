"""What a split says it holds is what it holds."""

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


def test_what_is_kept_out_is_listed_and_counted_in_no_part(tmp_path: Path, own_folder: Path) -> None:
    (own_folder / "val" / "class3" / "001.jpg").write_bytes(b"")
    split = make_split("imagefolder", run_root=tmp_path, data_root=own_folder, on_bad="quarantine")
    found = summarise(split, kept=True)
    assert len(found.quarantined) == 1
    assert "class3/001.jpg" in found.quarantined[0]
    assert found.parts["test"].all == 15
