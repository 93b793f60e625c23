"""Digits, CIFAR as torchvision keeps it, and folders of classes; and their sizes without a picture being read."""

from __future__ import annotations

import gzip
import hashlib
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from torchvision import datasets

from mptctl.data.embedded import read
from mptctl.data.manifest import TEST, TRAIN
from mptctl.data.sources import count_source, load_embedded_digits, read_cifar, read_source
from mptctl.errors import DataError
from tests.common import DAMAGES, damage, environment, make_folder

# Of the pictures of digits and characters: what README says was measured on these.
DIGESTS = ["5c90d8bf1762fc3aa32f15fecf9130ff", "b7037129b967b2a2764bc02c79cb3f57"]


def test_digits_are_divided_evenly_by_class_and_the_same_each_time() -> None:
    listed = read_source("digits", None)
    manifest, bad = listed.manifest, listed.problems
    assert bad == []
    assert len(manifest) == 1797
    assert manifest.class_names == tuple("0123456789")
    train = np.bincount(manifest.labels[manifest.parts == TRAIN])
    test = np.bincount(manifest.labels[manifest.parts == TEST])
    assert (abs(train - test) <= 1).all()
    assert int(train.sum()) == 896
    load_embedded_digits.cache_clear()
    assert read_source("digits", None).manifest.fingerprint == manifest.fingerprint


def test_digits_are_those_of_scikit_learn() -> None:
    pictures, labels, _ = load_embedded_digits()
    assert pictures.shape == (1797, 8, 8, 3)
    assert pictures.max() == 255
    ours = sorted(
        (int(label), picture[..., 0].tobytes()) for label, picture in zip(labels, pictures, strict=True)
    )
    found = load_digits()
    theirs = sorted(
        (int(label), np.rint(image * 255 / 16).astype(np.uint8).tobytes())
        for label, image in zip(found.target, found.images, strict=True)
    )
    assert ours == theirs


# Makes both embedded sources where neither package can be imported, and says their digests.
WITHOUT = """
import sys
sys.modules["matplotlib"] = sys.modules["sklearn"] = None
from mptctl.data.sources import read_source
print(*(read_source(name, None).manifest.content for name in ("digits", "characters")))
"""


def test_embedded_pictures_need_neither_scikit_learn_nor_matplotlib() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == DIGESTS


@pytest.mark.parametrize("how", [*DAMAGES, "no number"])
def test_a_table_of_digits_that_cannot_be_read_is_named(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Path(shutil.copy(read.DIGITS, tmp_path))
    if how == "no number":
        table.write_bytes(gzip.compress(b"0,1,2\n0,x,2\n", mtime=0))
    else:
        damage(table, how)
    monkeypatch.setattr(read, "DIGITS", table)
    load_embedded_digits.cache_clear()
    with pytest.raises(DataError, match=rf"{table}: missing or damaged; install mptctl again"):
        read_source("digits", None)


def write_cifar10(root: Path, monkeypatch: pytest.MonkeyPatch, rows: int = 20) -> np.ndarray:
    """CIFAR-10's files with few rows; torchvision is told their digests, as it knows those of the real ones."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (6, rows, 3, 32, 32), dtype=np.uint8)
    lists: dict[str, list[list[str]]] = {"train_list": [], "test_list": []}
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for number, name in enumerate(names):
        content = {"data": pictures[number].reshape(rows, -1), "labels": [i % 10 for i in range(rows)]}
        data = pickle.dumps(content, protocol=2)
        (folder / name).write_bytes(data)
        lists["test_list" if name == "test_batch" else "train_list"].append(
            [name, hashlib.md5(data).hexdigest()]
        )
    meta = pickle.dumps({"label_names": [f"thing{i}" for i in range(10)]}, protocol=2)
    (folder / "batches.meta").write_bytes(meta)
    for key, value in lists.items():
        monkeypatch.setattr(datasets.CIFAR10, key, value)
    monkeypatch.setitem(datasets.CIFAR10.meta, "md5", hashlib.md5(meta).hexdigest())
    read_cifar.cache_clear()
    return pictures.transpose(0, 1, 3, 4, 2).reshape(-1, 32, 32, 3)


def test_cifar_is_read_from_the_files_that_torchvision_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_cifar10(tmp_path, monkeypatch)
    manifest = read_source("cifar10", tmp_path).manifest
    assert manifest.class_names == tuple(f"thing{i}" for i in range(10))
    assert np.bincount(manifest.parts).tolist() == [100, 0, 20]
    assert manifest.labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    np.testing.assert_array_equal(read_cifar("cifar10", tmp_path.resolve())[0], written)
    assert manifest.ids(np.array([99, 100, 119])).tolist() == ["train/00099", "test/00000", "test/00019"]


def test_a_damaged_cifar_file_is_refused_before_it_is_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar10(tmp_path, monkeypatch)
    target = tmp_path / "cifar-10-batches-py" / "test_batch"
    target.write_bytes(target.read_bytes()[:-10])
    with pytest.raises(DataError, match="cifar-10-batches-py"):
        read_source("cifar10", tmp_path)


def test_a_test_folder_of_classes_is_the_test_part_and_val_the_validation_part(own_folder: Path) -> None:
    shutil.copytree(own_folder / "val", own_folder / "test")
    assert np.bincount(read_source("imagefolder", own_folder).manifest.parts).tolist() == [40, 16, 16]
    shutil.rmtree(own_folder / "val")
    manifest = read_source("imagefolder", own_folder).manifest
    assert np.bincount(manifest.parts).tolist() == [40, 0, 16]
    assert manifest.ids(np.array([55]))[0] == "test/class3/003.jpg"


def test_a_test_folder_without_labels_is_left_alone(own_folder: Path) -> None:
    """As ImageNet's, which is a heap of pictures without class folders."""
    (own_folder / "test").mkdir()
    shutil.copy(own_folder / "val" / "class0" / "000.jpg", own_folder / "test" / "000.jpg")
    assert np.bincount(read_source("imagefolder", own_folder).manifest.parts).tolist() == [40, 0, 16]


@pytest.mark.parametrize(
    ("emptied", "wanted"),
    [("val", "train/ and val/"), ("train/class1", "class1")],
)
def test_a_folder_without_a_part_or_a_class_is_refused_with_what_was_expected(
    own_folder: Path, emptied: str, wanted: str
) -> None:
    for file in (own_folder / emptied).rglob("*.jpg"):
        file.unlink()
    with pytest.raises(DataError, match=rf"{own_folder}.*{wanted}"):
        read_source("imagefolder", own_folder)


def test_a_class_that_does_not_train_is_refused(own_folder: Path) -> None:
    (own_folder / "val" / "unknown").mkdir()
    with pytest.raises(DataError, match=rf"{own_folder}.*unknown"):
        read_source("imagefolder", own_folder)


def test_digits_are_counted_as_their_manifest_has_them() -> None:
    manifest = read_source("digits", None).manifest
    parts = manifest.parts.tolist()
    assert count_source("digits", None) == (10, parts.count(TRAIN), parts.count(TEST))


def test_a_folder_is_counted_by_its_names_alone(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "pictures", classes=3, train=5, val=2, size=8)
    for path in root.rglob("*.jpg"):
        path.write_bytes(b"garbage")
    (root / "train" / "class0" / "notes.txt").write_text("not a picture")
    assert count_source("imagefolder", root) == (3, 15, 6)
