"""The split: who is old, who is held out, what is kept, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mptctl.data.sources import BadPictures
from mptctl.data.split import Split, load_split, make_split
from mptctl.data.split_file import fingerprint_of, manifest_name
from mptctl.errors import DataError, StorageError, UsageError


def test_a_split_is_found_again_as_it_was_made(tmp_path: Path, folder: Path) -> None:
    made = make_split(
        "imagefolder", run_root=tmp_path, data_root=folder, order="random", seed=4, val_fraction=0.2
    )
    found = load_split(tmp_path)
    assert found.fingerprint == made.fingerprint
    assert found.classes == made.classes
    np.testing.assert_array_equal(found.labels, made.labels)
    for part in ("train", "val", "test"):
        np.testing.assert_array_equal(found.indices(part), made.indices(part))
    name = f"manifest-{made.manifest.digest[:16]}.npz"
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "split.json"]


def test_labels_follow_the_class_order_by_name(tmp_path: Path, folder: Path) -> None:
    split = make_split("imagefolder", run_root=tmp_path, data_root=folder, old_names=["class2", "class1"])
    assert split.classes.names == ("class2", "class1", "class0", "class3")
    assert split.classes.num_old == 2
    for i in split.indices("train").tolist():
        assert split.ids(np.array([i]))[0].split("/")[1] == split.classes.names[split.labels[i]]


def test_classes_are_selected_by_mask_in_one_index_space(split: Split) -> None:
    everything, old = split.indices("train"), split.indices("train", 2)
    assert set(old.tolist()) == {i for i in everything.tolist() if split.labels[i] < 2}
    assert not set(everything.tolist()) & set(split.indices("test").tolist())


@pytest.mark.parametrize(("fraction", "held"), [(0.0, 0), (0.1, 1), (0.25, 3), (0.5, 5)])
def test_the_validation_part_is_the_same_share_of_each_class(
    tmp_path: Path, folder: Path, fraction: float, held: int
) -> None:
    split = make_split("imagefolder", run_root=tmp_path, data_root=folder, val_fraction=fraction)
    assert np.bincount(split.labels[split.indices("val")], minlength=4).tolist() == [held] * 4
    assert len(split.indices("train")) == 40 - 4 * held
    assert len(split.indices("test")) == 16


def test_the_validation_part_depends_on_the_seed_and_not_on_the_class_order(tmp_path: Path) -> None:
    splits = [
        make_split("digits", run_root=tmp_path / str(number), seed=seed, order=order)
        for number, (seed, order) in enumerate([(0, "given"), (0, "random"), (1, "given")])
    ]
    held = [set(split.indices("val").tolist()) for split in splits]
    assert held[0] == held[1]
    assert len(held[0] & held[2]) < len(held[0]) / 2
    assert len({split.fingerprint for split in splits}) == 3


def test_an_existing_split_is_kept(tmp_path: Path) -> None:
    make_split("digits", run_root=tmp_path)
    before = (tmp_path / "split.json").read_bytes()
    assert make_split("digits", run_root=tmp_path).fingerprint in before.decode()
    with pytest.raises(UsageError, match=r"seed: 0 -> 1.*--overwrite"):
        make_split("digits", run_root=tmp_path, seed=1)
    assert (tmp_path / "split.json").read_bytes() == before
    assert make_split("digits", run_root=tmp_path, seed=1, overwrite=True).file.request.seed == 1


def test_a_run_root_without_a_split_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no split\.json in .*; run mptctl split SOURCE first"):
        load_split(tmp_path / "nowhere")


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
        {"manifest": "../manifest.npz"},
    ],
    ids=lambda change: "-".join(change),
)
def test_a_split_that_was_edited_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    make_split("digits", run_root=tmp_path)
    path = tmp_path / "split.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    expected = "manifest: String should match" if "manifest" in change else "found, .* expected"
    with pytest.raises(DataError, match=rf"{expected}.*run mptctl split again with --overwrite"):
        load_split(tmp_path)


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
            "fingerprint": fingerprint_of(edited, made.classes.names, made.classes.num_old),
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


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from mptctl.data.split import load_split, make_split

root = Path(sys.argv[1])
make_split("digits", run_root=root, seed=0)


def killed(kill_at=None, delay=None, seed=None):
    # Replaces the split in a process of its own, killed at its n-th step on the disk or after a while.
    child = os.fork()
    if child == 0:
        steps = [0]
        def hook(event, arguments):
            if event in ("open", "os.rename", "os.remove", "os.link", "os.chmod", "os.mkdir"):
                steps[0] += 1
                if steps[0] == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
        if kill_at is not None:
            sys.addaudithook(hook)
        number = 0
        while True:
            make_split("digits", run_root=root, seed=seed + number % 2, overwrite=True)
            if delay is None:
                os._exit(0)
            number += 1
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


step, seed = 0, 0
while True:
    step += 1
    code = killed(kill_at=step, seed=seed + 1)
    found = load_split(root).file.request.seed
    assert found in (seed, seed + 1), (step, found)
    if code == 0:
        break
    assert code == -signal.SIGKILL, code
    seed = found
print(step, "steps")
chance = random.Random(0)
for _ in range(40):
    killed(delay=chance.uniform(0, 0.1), seed=7)
    load_split(root)
make_split("digits", run_root=root, seed=9, overwrite=True)
print(*sorted(path.name for path in root.iterdir()))
"""


def test_a_split_that_is_killed_while_it_is_replaced_leaves_the_old_or_the_new_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps, left = done.stdout.splitlines()
    assert int(steps.split()[0]) > 6
    assert left == f"{load_split(tmp_path).file.manifest} split.json"


def test_a_split_can_be_read_while_it_is_replaced(tmp_path: Path) -> None:
    make_split("digits", run_root=tmp_path, seed=1)
    program = """
import sys
from pathlib import Path
from mptctl.data.split import make_split
for number in range(20):
    make_split("digits", run_root=Path(sys.argv[1]), seed=number % 2, overwrite=True)
"""
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) as writer:
        seen = set()
        while writer.poll() is None:
            seen.add(load_split(tmp_path).file.request.seed)
    assert writer.returncode == 0
    assert seen == {0, 1}


@pytest.mark.parametrize("value", [-0.1, 1.0, 2.0])
def test_a_validation_part_out_of_range_is_a_usage_error(tmp_path: Path, value: float) -> None:
    with pytest.raises(UsageError, match="--val-fraction"):
        make_split("digits", run_root=tmp_path, val_fraction=value)


def test_a_class_that_would_lose_all_its_training_pictures_is_refused(
    tmp_path: Path, own_folder: Path
) -> None:
    with pytest.raises(DataError, match="no training picture is left of 4 classes"):
        make_split("imagefolder", run_root=tmp_path / "runs", data_root=own_folder, val_fraction=0.99)


def test_a_folder_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot be written"):
        make_split("digits", run_root=tmp_path / "file" / "runs")


def test_pictures_are_read_as_they_are_stored(split: Split, folder: Path) -> None:
    index = int(split.indices("test")[3])
    stored = np.asarray(Image.open(folder / str(split.ids(np.array([index]))[0])).convert("RGB"))
    np.testing.assert_array_equal(split.picture(index), stored)


def test_bad_files_are_all_named_and_kept_out_on_request(tmp_path: Path, own_folder: Path) -> None:
    clean = make_split("imagefolder", run_root=tmp_path / "clean", data_root=own_folder)
    (own_folder / "train/class1/003.jpg").write_text("no picture")
    (own_folder / "val/class0/001.jpg").write_bytes(b"")
    with pytest.raises(BadPictures) as caught:
        make_split("imagefolder", run_root=tmp_path / "runs", data_root=own_folder)
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        str(own_folder / "train/class1/003.jpg"),
        str(own_folder / "val/class0/001.jpg"),
    ]
    assert not (tmp_path / "runs").exists()
    kept = make_split("imagefolder", run_root=tmp_path / "runs", data_root=own_folder, on_bad="quarantine")
    assert kept.fingerprint != clean.fingerprint
    assert len(kept.file.quarantined) == 2
    used = np.concatenate([kept.indices(part) for part in ("train", "val", "test")])
    assert len(used) == 54
    # Every other picture has the index, and so the augmentation, that it had without the bad ones.
    np.testing.assert_array_equal(kept.ids(used), clean.ids(used))
    assert kept.file.counts == {"train": 35, "val": 4, "test": 15}
