"""Runs that were copied without their run root, and pictures that were moved: nothing is split again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mptctl.data.held_split import find_split, relocate
from mptctl.data.split import load_split, make_split
from mptctl.errors import DataError, UsageError
from mptctl.integrations.api import evaluate
from mptctl.machine.facts import has_package
from mptctl.report.documents.flips_files import FlipFiles
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, Log, short_recipe

SHORT = (
    *("--recipe", "digits", "--set", "optim.epochs=1", "--set", "optim.batch_size=8"),
    *("--set", "runtime.device=cpu", "--set", "runtime.threads=1", "--set", "data.loader=threaded"),
)


@pytest.fixture(scope="module")
def moved(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs and their pictures, copied to a colleague; where they were made is gone."""
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    shutil.copytree(folder, here / "pictures")
    split = make_split("imagefolder", run_root=here / "runs", data_root=here / "pictures", val_fraction=0.2)
    recipe = short_recipe("optim.epochs=1", "optim.batch_size=8", "data.loader=threaded")
    for name in ("old", "ref"):
        train(RunRequest(recipe, split, here / "runs" / name, only_old_classes=name == "old"), Log())
        shutil.copytree(here / "runs" / name, there / name)
    shutil.copytree(here / "pictures", there / "pictures", copy_function=shutil.copyfile)  # with new times
    shutil.rmtree(here)
    return there


def test_a_colleague_evaluates_two_runs_with_pictures_elsewhere(
    moved: Path, tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("evaluate", moved / "old", moved / "ref")
    gone = mptctl(*words)
    assert (gone.returncode, gone.stderr.count("\n")) == (4, 1)
    assert "--data-root" in gone.stderr
    done = mptctl(*words, "--data-root", moved / "pictures", "--json")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "runs" / "split.json").exists()


def test_every_command_that_reads_pictures_takes_them_from_where_they_are(
    moved: Path, tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old, ref, where = moved / "old", moved / "ref", ("--data-root", moved / "pictures")
    for words in (
        *(
            [("export", ref, "--format", "safetensors", "--out", tmp_path / "ref.safetensors")]
            * has_package("safetensors")
        ),
        ("fewshot", old, "--way", "2", "--query", "1", "--episodes", "3"),
        ("evaluate", ref),
        ("compare", ref, "--old", old),
        ("train-mpt", "--old", old, "--ref", ref, "--name", "update", *SHORT),
    ):
        done = mptctl(*words, *where)
        assert done.returncode == 0, (words, done.stderr)
    # They have read the pictures when they refuse an old model that is right by chance.
    for words, code in (
        (("adjust", ref, "--old", old, "--max-er-increase", "100", "--name", "shifted"), 5),
        (("gate", "init", old, ref, "--out", tmp_path / "gate.yaml"), 4),
    ):
        done = mptctl(*words, *where)
        assert (done.returncode, "the old model is right on" in done.stderr) == (code, True), done.stderr
    # The update was trained in a run root without a split: it holds one, whose pictures are where they are now.
    done = mptctl("evaluate", old, "update", "--json")
    assert done.returncode == 0, done.stderr


def test_a_page_has_moved_pictures_whose_ids_are_no_paths(
    folder: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    pictures = sorted(folder.glob("*/*/*.jpg"))
    rows = [f"p{i},{path.relative_to(folder)},{path.parent.name},{path.parts[-3]}\n"
            for i, path in enumerate(pictures)]  # fmt: skip
    (tmp_path / "table.csv").write_text("id,path,label,split\n" + "".join(rows), encoding="utf-8")
    done = mptctl("split", tmp_path / "table.csv", "--data-root", folder, "--run-root", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    where = shutil.copytree(folder, tmp_path / "pictures")
    split = relocate(load_split(tmp_path / "runs"), where)
    ids = split.ids(split.indices("test"))
    labels = ["cat", "dog"] * (len(ids) // 2)
    report = evaluate(labels, old=labels, new=labels[::-1], ids=ids)
    page = tmp_path / "page.html"
    FlipFiles(page=page).write(report.result, {}, where, split)
    assert page.read_text(encoding="utf-8").count("data:image/png") == len(ids)


def test_a_run_root_with_a_split_keeps_it(folder: Path, moved: Path, tmp_path: Path) -> None:
    own = make_split("imagefolder", run_root=tmp_path, data_root=folder, val_fraction=0.0)
    assert find_split(tmp_path, [moved / "old"]).fingerprint == own.fingerprint
    (tmp_path / "other").mkdir()
    held = find_split(tmp_path / "other", [moved / "old", moved / "ref"])
    assert held.fingerprint == load_split(moved / "old").fingerprint != own.fingerprint
    assert held.run_root == tmp_path / "other"


def test_runs_of_different_splits_are_refused(folder: Path, moved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_split("imagefolder", run_root=other, data_root=folder, val_fraction=0.5)
    shutil.copy(moved / "old" / "environment.json", other)
    with pytest.raises(UsageError, match="hold different splits"):
        find_split(tmp_path, [moved / "old", other])


def test_other_pictures_than_the_splits_are_named(folder: Path, own_folder: Path, tmp_path: Path) -> None:
    split = make_split("imagefolder", run_root=tmp_path / "runs", data_root=folder)
    assert relocate(split, own_folder).fingerprint == split.fingerprint
    first, second, *_ = sorted(own_folder.rglob("*.jpg"))
    first.unlink()
    second.write_bytes(second.read_bytes() + b"x")
    with pytest.raises(
        DataError, match=rf"2 of \d+ pictures are not those .*{first.name}: No such file.*bytes, not"
    ):
        relocate(split, own_folder)
    with pytest.raises(DataError, match="not a folder"):
        relocate(split, own_folder / "nothing")


def test_embedded_pictures_lie_in_no_folder(digits_root: Path) -> None:
    with pytest.raises(UsageError, match="digits lie in no folder"):
        relocate(load_split(digits_root), digits_root)


def test_a_run_shares_its_table_with_the_run_root(
    digits_root: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    split = make_split("digits", run_root=tmp_path)
    done = mptctl("train-old", "--run-root", tmp_path, *SHORT[2:], "--set", "optim.max_steps=1")
    assert done.returncode == 0, done.stderr
    name = split.file.table
    assert os.path.samefile(tmp_path / name, tmp_path / "old" / name)
