"""Row 33: studies with Ray really running, killed, stopped, and with a run that fails."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import read_metrics
from tests.common import CommandLine
from tests.forked import Forked
from tests.tune.conftest import rays_of, wait_for
from tools.keep_results import keep_study

# Of all runs but one, which is long enough to be killed in the middle on a busy machine too.
EPOCHS, LONG = 4, 20
STUDY = f"""
description: a small study with a run that fails
split: {{source: digits}}
recipe: digits
set: {{optim.epochs: {EPOCHS}, runtime.device: cpu, runtime.threads: 1}}
updates:
  - {{method: no-treatment, set: {{optim.epochs: {LONG}}}}}
  - {{name: wild, method: pct-kl, set: {{optim.lr: 1.0e+30}}}}
  - {{method: mpt-kl, set: {{method.k: 1}}}}
"""
pytestmark = pytest.mark.slow
# A contract: what is left of a killed study is gone within so many seconds.
SECONDS_TO_DIE = 2.0


def start(folder: Path, *words: str, epochs: int = EPOCHS) -> Forked:
    """`mptctl study --json` in a folder of its own, so that two of them print the same paths."""
    text = STUDY.replace(f"epochs: {EPOCHS}", f"epochs: {epochs}")
    (folder / "small.yaml").write_text(text, encoding="utf-8")
    return Forked("study", "small.yaml", "--run-root", "runs", "--seeds", "3", "--json", *words, cwd=folder)


def finished(process: Forked) -> tuple[dict[str, Any], str]:
    """What a study with a failed run printed, without its time, and what it said."""
    out, said = process.communicate(timeout=300)
    assert process.returncode == 1, said
    report = json.loads(out)
    del report["seconds"]
    return report, said


def epochs(run: Path) -> int:
    metrics = run / "metrics.jsonl"
    return metrics.read_text(encoding="utf-8").count('"event":"checkpoint"') if metrics.exists() else 0


def workers(folder: Path) -> list[int]:
    """Processes that hold a run's folder."""
    return [int(text) for lock in folder.glob("*/lock") if (text := lock.read_text()).strip()]


def is_alive(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A study that was killed while it trained an update, and what it printed when it had gone on."""
    folder = tmp_path_factory.mktemp("killed")
    seed = folder / "runs" / "3"
    process = start(folder, "--parallel", "2")
    wait_for(lambda: epochs(seed / "no-treatment") >= 1, process)
    held = workers(seed)
    assert held
    process.send_signal(signal.SIGKILL)
    began = time.monotonic()
    while any(map(is_alive, held)) or rays_of(process):
        assert time.monotonic() - began < 30, "workers are left"
        time.sleep(0.02)
    seconds = time.monotonic() - began
    process.communicate()
    old = (seed / "old" / "best.pt").stat().st_mtime_ns
    interrupted = epochs(seed / "no-treatment")
    report, said = finished(start(folder, "--parallel", "1"))
    assert (seed / "old" / "best.pt").stat().st_mtime_ns == old
    assert interrupted < LONG, "killed too late"
    return {"folder": folder, "seconds": seconds, "report": report, "said": said}


def test_row_33_after_a_kill_no_worker_is_left(killed: dict[str, Any]) -> None:
    assert killed["seconds"] < SECONDS_TO_DIE


def test_row_33_finished_runs_are_not_repeated_and_a_failed_one_is_named(killed: dict[str, Any]) -> None:
    assert "3/old: done" in killed["said"]
    assert "3/old (plain training)" not in killed["said"]  # which would say that it was trained
    assert "3/no-treatment (plain training): 240 steps, from step" in killed["said"]
    status = {row["run"]: row["status"] for row in killed["report"]["runs"]}
    assert status == dict.fromkeys(("old", "ref", "no-treatment", "mpt-kl"), "done") | {"wild": "failed"}
    (last,) = (line for line in killed["said"].splitlines() if line.startswith("mptctl:"))
    assert "1 of 5 runs failed: 3/wild (" in last
    assert "not finite" in last
    rows = [row["name"] for row in killed["report"]["comparison"]["rows"]]
    assert {"no-treatment", "mpt-kl"} <= set(rows)
    assert "wild" not in rows


@pytest.mark.parametrize(
    "words", [("--parallel", "1"), pytest.param(("--parallel", "2"), marks=pytest.mark.nightly)]
)
def test_row_33_what_is_printed_is_what_a_study_without_kills_prints(
    killed: dict[str, Any], tmp_path: Path, words: tuple[str, ...]
) -> None:
    report, _ = finished(start(tmp_path, *words))
    one, other = json.dumps(report), json.dumps(killed["report"])
    assert one.replace(str(tmp_path), "") == other.replace(str(killed["folder"]), "")
    for run in ("old", "ref", "no-treatment", "mpt-kl"):
        one, other = (
            load_checkpoint(folder / "runs" / "3" / run / "best.pt").model
            for folder in (tmp_path, killed["folder"])
        )
        assert all((weights == other[name]).all() for name, weights in one.items())


def test_results_are_kept_small_and_are_enough_for_the_table(
    killed: dict[str, Any], mptctl: CommandLine
) -> None:
    kept, trained = killed["folder"] / "kept" / "small", killed["folder"] / "runs" / "3"
    keep_study(trained.parent, kept)
    runs = {path.name: path for path in (kept / "3").iterdir()}
    assert set(runs) == {"old", "ref", "no-treatment", "mpt-kl"}
    for name, path in runs.items():
        files = {file.name: file.stat().st_size for file in path.iterdir()}
        assert set(files) == {"environment.json", "recipe.yaml", "metrics.jsonl.gz", "answers.npz"}
        assert sum(files.values()) < 150_000
        of_run = json.loads((trained / name / "environment.json").read_text())
        of_run.pop("command")  # it names folders of this machine
        assert json.loads((path / "environment.json").read_text()) == of_run
    done = mptctl("compare", kept, "--json")
    assert done.returncode == 0, done.stderr
    again = {row["name"]: row["flips"] for row in json.loads(done.stdout)["rows"]}
    assert again == {row["name"]: row["flips"] for row in killed["report"]["comparison"]["rows"]}


def two_under_way(folder: Path) -> tuple[Path, Forked]:
    """The run root of a study, and its process, which trains `old` and `ref` at once, each past its first epoch."""
    seed, process = folder / "runs" / "3", start(folder, "--parallel", "2", epochs=400)
    wait_for(lambda: epochs(seed / "old") >= 1 and epochs(seed / "ref") >= 1, process)
    return seed, process


def assert_saved_where_the_log_ends(run: Path) -> None:
    """Not one step was lost of a run that did not come to its end."""
    saved = load_checkpoint(run / "last.pt").meta
    assert saved.global_step == read_metrics(run / "metrics.jsonl")[-1].step
    assert saved.epoch < 400


def test_row_33_a_killed_worker_is_replaced_and_ctrl_c_saves_and_stops_all_runs(
    tmp_path: Path, mptctl: CommandLine
) -> None:
    seed, process = two_under_way(tmp_path)
    other = mptctl("study", tmp_path / "small.yaml", "--run-root", tmp_path / "runs", "--seeds", "4")
    assert other.returncode == 2
    assert "another study is writing into it" in other.stderr
    os.kill(int((seed / "old" / "lock").read_text()), signal.SIGKILL)
    before = epochs(seed / "old")
    wait_for(lambda: epochs(seed / "old") > before + 1, process)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, ""), said
    assert "3/old: its process died; another one goes on" in said
    assert "stopped; what is done is kept" in said
    assert rays_of(process) == []
    assert not list(seed.glob("*/lock"))
    for run in ("old", "ref"):
        assert_saved_where_the_log_ends(seed / run)


@pytest.mark.parametrize("first", ["study", pytest.param("worker", marks=pytest.mark.nightly)])
def test_row_33_a_worker_that_is_killed_as_ctrl_c_comes_does_not_train_anew(
    tmp_path: Path, first: str
) -> None:
    seed, process = two_under_way(tmp_path)
    worker = int((seed / "old" / "lock").read_text())
    # Stopped, so that the study finds both, its worker's death and the signal, when it goes on.
    process.send_signal(signal.SIGSTOP)
    if first == "study":
        process.send_signal(signal.SIGINT)
    os.kill(worker, signal.SIGKILL)
    while is_alive(worker):
        time.sleep(0.01)
    trained = (seed / "old" / "metrics.jsonl").read_bytes()
    if first == "worker":
        process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    out, said = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, ""), said
    assert "another one goes on" not in said
    assert (seed / "old" / "metrics.jsonl").read_bytes() == trained
    assert not (seed / "ref" / "lock").exists()
    assert_saved_where_the_log_ends(seed / "ref")
    assert rays_of(process) == []
