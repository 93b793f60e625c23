"""`mptctl study` as it is typed: what is refused before anything is trained, and what is said of a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mptctl.data.split import make_split
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, make_folder, short_recipe

STUDY = """
description: tiny
split: {source: digits}
recipe: digits
set: {optim.max_steps: 2, runtime.device: cpu}
updates: [no-treatment, mpt-kl]
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def test_a_plan_names_its_runs_what_is_there_and_what_they_take(
    mptctl: CommandLine, study: Path, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    split = make_split("digits", run_root=root / "1", seed=1)
    recipe = short_recipe("optim.max_steps=2", "optim.epochs=15", "runtime.threads=0", "runtime.seed=2001")
    train(RunRequest(recipe, split, root / "1" / "old", only_old_classes=True), Observer())
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    done = mptctl("study", study, "--run-root", root, "--seeds", "1,2", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    rows = {f"{row['seed']}/{row['run']}": row for row in plan["runs"]}
    names = ("old", "ref", "no-treatment", "mpt-kl")
    assert list(rows) == [f"{seed}/{name}" for seed in (1, 2) for name in names]
    assert {key: row["standing"] for key, row in rows.items()} == {
        key: "unanswered" if key == "1/old" else "missing" for key in rows
    }
    assert rows["2/mpt-kl"]["teachers"] == ["2/old", "2/ref"]
    assert [rows[f"1/{name}"]["steps"] for name in names] == [0, 2, 2, 2]
    assert rows["1/old"]["seconds"] == 0
    assert 0 < rows["1/no-treatment"]["step_seconds"] < rows["1/mpt-kl"]["step_seconds"]
    assert plan["seconds"] == pytest.approx(sum(row["seconds"] for row in rows.values()), abs=0.01)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    said = mptctl("study", study, "--run-root", root, "--seeds", "1,2", "--dry-run")
    assert "8 of 8 runs are left, " in said.stdout
    assert "without its answers" in said.stdout
    assert "nothing was written" in said.stdout


def test_a_plan_reads_no_picture(mptctl: CommandLine, tmp_path: Path) -> None:
    root = make_folder(tmp_path / "pictures", classes=4, train=40, val=2, size=32)
    for path in root.rglob("*.jpg"):
        path.write_bytes(b"garbage")
    text = STUDY.replace("source: digits", "source: imagefolder").replace(
        "recipe: digits", "recipe: tiny-imagenet"
    )
    (tmp_path / "tiny.yaml").write_text(
        text.replace("set: {", "set: {optim.batch_size: 8, "), encoding="utf-8"
    )
    flags = ("--run-root", tmp_path / "runs", "--data-root", root, "--json")
    done = mptctl("study", tmp_path / "tiny.yaml", *flags, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert [row["steps"] for row in json.loads(done.stdout)["runs"]] == [2, 2, 2, 2]
    assert not (tmp_path / "runs").exists()
    assert mptctl("study", tmp_path / "tiny.yaml", *flags).returncode == 4


def test_a_table_is_planned_by_the_rows_that_its_split_will_have(mptctl: CommandLine, tmp_path: Path) -> None:
    root = make_folder(tmp_path / "pictures", classes=4, train=40, val=2, size=32)
    lines = [f"{path.relative_to(root)},{path.parent.name}" for path in root.glob("train/*/*.jpg")]
    (root / "photos.csv").write_text("\n".join(["path,label", *lines]))
    place = f"{{source: {root / 'photos.csv'}, test_fraction: 0.5, val_fraction: 0}}"
    text = STUDY.replace("{source: digits}", place).replace("recipe: digits", "recipe: tiny-imagenet")
    (tmp_path / "tiny.yaml").write_text(
        text.replace("set: {optim.max_steps: 2, ", "set: {optim.batch_size: 8, optim.epochs: 3, ")
    )
    done = mptctl("study", tmp_path / "tiny.yaml", "--run-root", tmp_path / "runs", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    # Twenty pictures a class are left, and the old model knows two of the four classes.
    assert [row["steps"] for row in json.loads(done.stdout)["runs"]] == [15, 30, 30, 30]
    assert not (tmp_path / "runs").exists()
