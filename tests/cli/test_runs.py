"""`mptctl runs`: what is below the run root, and in which state."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mptctl.data.split import load_split, make_split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.lock import locked
from mptctl.models.ownership import RUN
from mptctl.models.run_list import list_runs
from mptctl.report.documents.lists import runs_document
from mptctl.report.media.terminal import print_document
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, short_recipe, train_until_killed


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with a run of its own, below it the folder of a seed with an ensemble and an update, and no runs."""
    root = tmp_path_factory.mktemp("runs")
    for folder, names in ((root, ("old",)), (root / "10", ("old", "ensemble/0", "ensemble/1", "mpt-kl"))):
        split = make_split("digits", run_root=folder)
        for seed, name in enumerate(names):
            method = "mpt-kl" if name == "mpt-kl" else "no-treatment"
            recipe = short_recipe("optim.max_steps=10", f"runtime.seed={seed}", method=method)
            old, *refs = (folder / each / "best.pt" for each in names[:3])
            teachers = (old, tuple(refs)) if name == "mpt-kl" else (None, ())
            train(
                RunRequest(recipe, split, folder / name, *teachers, only_old_classes=name == "old"),
                Observer(),
            )
    shutil.copytree(root / "10" / "mpt-kl", root / "2" / "copy")
    (root / "cache" / "old").mkdir(parents=True)
    shutil.copy2(root / "old" / "best.pt", root / "cache" / "old" / "best.pt")
    (root / "notes").mkdir()
    (root / "notes" / "environment.json").write_text('{"of": "another program"}')
    return root


@pytest.fixture
def root(base: Path, tmp_path: Path) -> Path:
    return shutil.copytree(base, tmp_path / "runs")


def listed(mptctl: CommandLine, root: Path) -> dict[str, Any]:
    out = mptctl("runs", "--run-root", root, "--json")
    assert (out.returncode, out.stderr) == (0, "")
    found = json.loads(out.stdout)
    assert found["run_root"] == str(root)
    return {run["run"]: run for run in found["runs"]}


def wide(root: Path) -> str:
    """The table in a terminal in which nothing is wrapped."""
    console = Console(width=200, file=io.StringIO(), force_terminal=True)
    with console.capture() as capture:
        print_document(runs_document(list_runs(root)), console)
    return capture.get()


def test_all_runs_are_found_in_their_order(mptctl: CommandLine, root: Path) -> None:
    runs = listed(mptctl, root)
    assert list(runs) == ["2/copy", "10/ensemble/0", "10/ensemble/1", "10/mpt-kl", "10/old", "old"]
    assert {run["state"] for run in runs.values()} == {"finished"}
    assert [name for name, run in runs.items() if run["method"] == "mpt-kl"] == ["2/copy", "10/mpt-kl"]
    for name, run in runs.items():
        assert run["val_error"] == load_checkpoint(root / name / "best.pt").meta.best_error
        written = (root / name / "metrics.jsonl").stat().st_mtime
        assert abs(datetime.fromisoformat(run["when"]).timestamp() - written) <= 1
        # An epoch of the old classes has 6 steps, of all classes 12; runs have 10.
        assert (run["epoch"], run["epochs"]) == (2 if name.endswith("old") else 1, 2)


def test_an_interrupted_run_says_how_far_it_came(mptctl: CommandLine, root: Path) -> None:
    split = load_split(root)
    long = short_recipe("runtime.seed=3", "optim.epochs=3", method="no-treatment")
    steps = len(split.indices("train")) // long.optim.batch_size
    train_until_killed(RunRequest(long, split, root / "killed"), "epoch", steps * 2)
    early = short_recipe("runtime.seed=3", "optim.epochs=3", "runtime.checkpoint_every_steps=1")
    train_until_killed(RunRequest(early, split, root / "early"), "checkpoint", 1)
    (root / "early" / "last.pt").unlink()
    (root / "early" / "best.pt").unlink(missing_ok=True)
    runs = listed(mptctl, root)
    killed = runs["killed"]
    assert (killed["state"], killed["epoch"], killed["epochs"]) == ("interrupted", 2, 3)
    early_run = runs["early"]
    assert (early_run["state"], early_run["epoch"], early_run["epochs"]) == ("interrupted", 1, 3)
    assert (early_run["method"], early_run["val_error"]) == ("no-treatment", None)
    assert "interrupted (2 of 3)" in wide(root)


def test_a_run_that_is_written_is_running(mptctl: CommandLine, root: Path) -> None:
    with locked(root / "old", RUN, "keep"):
        running = listed(mptctl, root)["old"]
        said = wide(root)
    assert running["state"] == "running"
    assert "running (2 of 2)" in said
    assert listed(mptctl, root)["old"]["state"] == "finished"


@pytest.mark.parametrize("damage", ["flipped", "metrics", "recipe", "lost"])
def test_a_broken_run_is_named_and_the_others_are_listed(
    mptctl: CommandLine, root: Path, damage: str
) -> None:
    folder = root / "10" / "mpt-kl"
    content = (folder / "best.pt").read_bytes()
    if damage == "flipped":
        with zipfile.ZipFile(
            folder / "best.pt"
        ) as archive:  # in a tensor: bytes between members mean nothing
            largest = archive.read(max(archive.infolist(), key=lambda member: member.file_size))
        middle = content.index(largest) + len(largest) // 2
        (folder / "best.pt").write_bytes(
            content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
        )
    elif damage == "metrics":
        (folder / "metrics.jsonl").write_bytes(b"\xff\xfe\n")
    else:
        shutil.rmtree(folder)
        folder.mkdir()
        shutil.copy(root / "old" / "environment.json", folder)
        if damage == "lost":
            (folder / "environment.json").rename(folder / "lock")
            (folder / "previous.pt").write_bytes(content)
        else:
            (folder / "recipe.yaml").write_text("optim: {lr: fast}")
    runs = listed(mptctl, root)
    assert len(runs) == 6
    assert runs.pop("10/mpt-kl")["state"] == "broken"
    assert {run["state"] for run in runs.values()} == {"finished"}
    out = mptctl("runs", "--run-root", root)
    assert out.returncode == 0
    assert "10/mpt-kl: " in out.stdout
    assert max(map(len, out.stdout.splitlines())) <= 80


def test_folders_of_logs_and_of_other_programs_are_no_runs(mptctl: CommandLine, root: Path) -> None:
    before = listed(mptctl, root)
    for copy in ("mlflow-files/0123/artifacts", "wandb/offline-run-1/files"):
        (root / copy).mkdir(parents=True)
        for name in ("metrics.jsonl", "environment.json", "recipe.yaml"):
            shutil.copy(root / "old" / name, root / copy)
    (root / "yolo").mkdir()
    (root / "yolo" / "best.pt").write_bytes(b"not a checkpoint")
    (root / "yolo" / "metrics.jsonl").write_text('{"loss": 1.0}\n')
    assert listed(mptctl, root) == before
    refused = mptctl("train-old", "--run-root", root, "--name", "wandb")
    assert (refused.returncode, "wandb is where --log keeps its files" in refused.stderr) == (2, True)


def test_no_run_is_no_error(mptctl: CommandLine, tmp_path: Path) -> None:
    out = mptctl("runs", "--run-root", tmp_path)
    assert (out.returncode, out.stdout, out.stderr) == (0, "", f"no run below {tmp_path}\n")
    assert json.loads(mptctl("runs", "--run-root", tmp_path, "--json").stdout)["runs"] == []
