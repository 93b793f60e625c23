"""`split.json` and its manifest: damaged, edited, or of an earlier version."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import load_split, make_split
from mptctl.data.split_file import compute_fingerprint, manifest_name
from mptctl.errors import DataError


@pytest.mark.parametrize("damage", ["text", "version", "field", "other manifest", "no manifest"])
def test_a_damaged_split_is_a_data_error(tmp_path: Path, damage: str) -> None:
    make_split("digits", run_root=tmp_path)
    path = tmp_path / "split.json"
    content = json.loads(path.read_text())
    if damage == "text":
        path.write_text("{")
    elif damage == "version":
        path.write_text(json.dumps(content | {"schema_version": 99}))
    elif damage == "field":
        path.write_text(json.dumps(content | {"num_old": "many"}))
    elif damage == "other manifest":
        other = make_split("digits", run_root=tmp_path / "other", seed=1).file.manifest
        (tmp_path / "other" / other).replace(tmp_path / content["manifest"])
    else:
        (tmp_path / content["manifest"]).unlink()
    with pytest.raises(DataError, match=r"run mptctl split again"):
        load_split(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"num_old": 4},
        {"num_old": 99},
        {"class_names": ["zero", *map(str, range(1, 10))]},
        {"class_names": ["1", "0", *map(str, range(2, 10))]},
        {"class_names": [str(max(i, 1)) for i in range(10)]},
        {"fingerprint": "0" * 32},
        {"manifest_fingerprint": "0" * 32},
        {"counts": {"train": 806, "val": 91, "test": 901}},
        {"quarantined": ["train/cat/1.png: empty"]},
        {"manifest": "../manifest.npz"},
    ],
    ids=lambda change: "-".join(change),
)
def test_a_split_that_was_edited_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    make_split("digits", run_root=tmp_path)
    path = tmp_path / "split.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    expected = "manifest: string should match" if "manifest" in change else "found, .* expected"
    with pytest.raises(DataError, match=rf"{expected}.*run mptctl split again with --overwrite"):
        load_split(tmp_path)


@pytest.mark.parametrize(
    "change", [{"seed": 3}, {"val_fraction": 0.2}, {"order": "random"}, {"old_fraction": 0.3}]
)
def test_a_request_that_was_edited_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    made = make_split("digits", run_root=tmp_path)
    path = tmp_path / "split.json"
    content = json.loads(path.read_text())
    edited = content | {"request": content["request"] | change}
    path.write_text(json.dumps(edited))
    with pytest.raises(DataError, match=r"request was edited: digest: .* found, .* expected; restore it"):
        load_split(tmp_path)
    del edited["request_digest"]  # as in a split of an earlier version, which stays as it was
    path.write_text(json.dumps(edited))
    assert load_split(tmp_path).fingerprint == made.fingerprint


def test_data_that_moved_are_no_edit(tmp_path: Path, folder: Path) -> None:
    made = make_split("imagefolder", run_root=tmp_path / "runs", data_root=folder)
    moved = made.file.request.model_copy(update={"data_root": str(tmp_path / "moved")})
    path = tmp_path / "runs" / "split.json"
    path.write_text(made.file.model_copy(update={"request": moved}).model_dump_json())
    assert load_split(tmp_path / "runs").manifest.root == tmp_path / "moved"


@pytest.mark.parametrize("column", ["labels", "parts", "sizes", "heights", "mtimes"])
def test_a_manifest_that_was_edited_is_refused(tmp_path: Path, folder: Path, column: str) -> None:
    made = make_split("imagefolder", run_root=tmp_path, data_root=folder)
    path = tmp_path / made.file.manifest
    rows = getattr(made.manifest, column).copy()
    rows[0] += 1
    replace(made.manifest, **{column: rows}).save(path)
    with pytest.raises(DataError, match=r"(fingerprint|digest): [0-9a-f]{12} found, [0-9a-f]{12} expected"):
        load_split(tmp_path)


@pytest.mark.parametrize(("label", "part"), [(-1, 0), (4, 0), (0, 4)])
def test_a_label_that_is_none_is_never_read_as_the_last_class(
    tmp_path: Path, folder: Path, label: int, part: int
) -> None:
    """Also where whoever edited the manifest computed the fingerprints again."""
    made = make_split("imagefolder", run_root=tmp_path, data_root=folder)
    labels, parts = made.manifest.labels.copy(), made.manifest.parts.copy()
    labels[3], parts[3] = label, part
    edited = replace(made.manifest, labels=labels, parts=parts)
    edited.save(tmp_path / manifest_name(edited))
    file = made.file.model_copy(
        update={
            "manifest": manifest_name(edited),
            "manifest_fingerprint": edited.fingerprint,
            "fingerprint": compute_fingerprint(edited, made.classes.names, made.classes.num_old),
        }
    )
    (tmp_path / "split.json").write_text(file.model_dump_json())
    with pytest.raises(DataError, match="1 rows have a label or a part that there is not, row 3 first"):
        load_split(tmp_path)


def test_a_split_with_the_earlier_name_of_its_manifest_is_read_and_replaced(tmp_path: Path) -> None:
    made = make_split("digits", run_root=tmp_path)
    (tmp_path / made.file.manifest).rename(tmp_path / "manifest.npz")
    file = made.file.model_copy(update={"manifest": "manifest.npz"})
    (tmp_path / "split.json").write_text(file.model_dump_json(indent=2))
    found = load_split(tmp_path)
    assert found.fingerprint == made.fingerprint
    np.testing.assert_array_equal(found.labels, made.labels)
    again = make_split("digits", run_root=tmp_path, seed=1, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [again.file.manifest, "split.json"]
