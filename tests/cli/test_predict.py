"""`mptctl predict` as it is typed: answers to pictures without labels, and what it refuses in one line."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.common import CommandLine
from tests.untrained import untrained_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run root with an untrained model of two classes."""
    keys = ["data.image_size=32", "data.threads=1"]
    return untrained_run(tmp_path / "runs" / "mine", ("cat", "dog"), 1, keys=keys).parents[1]


@pytest.fixture
def pictures(folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(folder / "val", tmp_path / "incoming")


def test_pictures_in_tables_and_shards_are_predicted_as_those_in_folders(
    mptctl: CommandLine, runs: Path, pictures: Path, tmp_path: Path
) -> None:
    paths = sorted(pictures.rglob("*.jpg"))
    ids = [str(path.relative_to(pictures)) for path in paths]
    (pictures / "gone.jpg").write_bytes(b"no picture")
    (pictures / "table.csv").write_text(
        "path,split\n" + "".join(f"{name},train\n" for name in ["gone.jpg", *ids])
    )
    with tarfile.open(tmp_path / "train-0.tar", "w") as tar:
        for path, name in zip([pictures / "gone.jpg", *paths], ["gone.jpg", *ids], strict=True):
            tar.add(path, name)
    answers = {}
    for kind, place in {
        "folder": pictures,
        "table": pictures / "table.csv",
        "shards": tmp_path / "*.tar",
    }.items():
        words = ("predict", "mine", place, "--out", tmp_path / f"{kind}.npz", "--run-root", runs)
        refused = mptctl(*words)
        assert (refused.returncode, "gone.jpg" in refused.stderr) == (4, True)
        done = mptctl(*words, "--on-bad", "quarantine")
        assert done.returncode == 0, done.stderr
        assert "16 pictures predicted, 1 left out" in done.stderr
        with np.load(tmp_path / f"{kind}.npz") as saved:
            answers[kind] = dict(saved)
    for kind in ("table", "shards"):
        assert answers[kind]["id"].tolist() == answers["folder"]["id"].tolist() == ids
        assert np.array_equal(answers[kind]["logits"], answers["folder"]["logits"])


def test_pictures_of_a_table_may_lie_in_another_folder(
    mptctl: CommandLine, runs: Path, pictures: Path, tmp_path: Path
) -> None:
    ids = sorted(str(path.relative_to(pictures)) for path in pictures.rglob("*.jpg"))
    table = tmp_path / "lists" / "table.csv"
    table.parent.mkdir()
    table.write_text("\n".join(["path", *ids]))
    words = ("--out", tmp_path / "found.npz", "--run-root", runs)
    refused = mptctl("predict", "mine", table, *words)
    assert (refused.returncode, "with --data-root" in refused.stderr) == (4, True)
    done = mptctl("predict", "mine", table, *words, "--data-root", pictures)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "found.npz") as saved:
        assert saved["id"].tolist() == ids
    refused = mptctl("predict", "mine", pictures, *words, "--data-root", tmp_path)
    assert (refused.returncode, "leave one of them out" in refused.stderr) == (2, True)


def test_a_copy_that_lacks_pictures_brings_a_warning(
    mptctl: CommandLine, runs: Path, own_folder: Path, tmp_path: Path
) -> None:
    bad, copy = own_folder / "train" / "class0" / "000.jpg", tmp_path / "copy"
    content = bad.read_bytes()
    bad.write_text("no picture")
    pack = ("pack", own_folder, copy)
    assert mptctl(*pack).returncode == 4
    words = ("predict", "mine", copy, "--out", tmp_path / "answers.npz", "--run-root", runs)
    done = mptctl(*words)
    assert done.returncode == 0, done.stderr
    assert (
        f"warning: {copy}: is an incomplete copy of {own_folder}, so pictures may be missing; " in done.stderr
    )
    bad.write_bytes(content)
    assert mptctl(*pack).returncode == 0
    assert "warning" not in mptctl(*words).stderr
    (copy / "pack.json").write_text('{"complete": false}')  # of another program
    assert "warning" not in mptctl(*words).stderr
