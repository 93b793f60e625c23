"""`make gpu-check` itself, as far as it can be tried without a GPU."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.common import CommandLine
from tests.gpu import check
from tests.gpu.check import TASKS, Check, Result, Task


def checked(out: Path, rehearse: bool = True, pictures: Path | None = None) -> Check:
    return Check(argparse.Namespace(out=out, rehearse=rehearse, seconds=100, pictures=pictures))


def tried(out: Path, *words: str, limit: int = 60, measures: bool = False) -> tuple[str, str]:
    """The outcome of a task with these words in a rehearsal, and why, as the file says it."""
    checked(out).do(Task("kernel", "a task", (), limit // check.SLOWER, (), measures, words))
    (result,) = json.loads((out / "check.json").read_text())["tasks"]
    return result["outcome"], result["message"]


@pytest.mark.parametrize("name", ["time_loader", "tune_kernel"])
def test_what_a_gpu_runs_can_be_imported(name: str) -> None:
    pytest.importorskip("triton")
    assert import_module(f"tests.gpu.{name}").__doc__


def test_every_test_file_for_a_gpu_is_run() -> None:
    files = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert files - {Path(__file__).stem} == {task.name for task in TASKS if task.name.startswith("test_")}
    assert {task.part for task in TASKS} == set(check.PARTS)


KILLED = (
    "import sys, time; print('one', flush=True); print('said', file=sys.stderr, flush=True); time.sleep(60)"
)
FAILS = "import os; print('{\"us\": 2.0}', flush=True); os._exit(3)"


@pytest.mark.parametrize(
    ("program", "limit", "measures", "message"),
    [(FAILS, 60, True, "exit code 3"), (KILLED, 4, False, "killed after 4 s, its limit")],
)
def test_what_a_task_printed_before_it_failed_or_was_killed_is_kept(
    tmp_path: Path, program: str, limit: int, measures: bool, message: str
) -> None:
    assert tried(tmp_path, "-c", program, limit=limit, measures=measures) == ("failed", message)
    if measures:  # line by line, with the machine
        about, row = map(json.loads, (tmp_path / "a task.jsonl").read_text().splitlines())
        assert row == {"us": 2.0}
        assert about["checked_on"]["versions"]["torch"]
    else:
        assert {"    one", "    said"} < set((tmp_path / "check.log").read_text().splitlines())


@pytest.mark.parametrize(
    ("body", "outcome", "message"),
    [
        ("pass", "passed", "1 passed"),
        ("pytest.skip('needs the card')", "not run", "0 passed, 1 not run, for the reasons above"),
        ("assert False", "failed", "exit code 1"),
    ],
)
def test_tests_that_fail_or_are_skipped_have_not_passed(
    tmp_path: Path, body: str, outcome: str, message: str
) -> None:
    (tmp_path / "test_one.py").write_text(f"import pytest\ndef test_one() -> None:\n    {body}\n")
    words = ("-m", "pytest", str(tmp_path / "test_one.py"), "-o", "addopts=-rs", "-p", "no:cacheprovider")
    assert tried(tmp_path, *words, "--noconftest") == (outcome, message)
    assert ("SKIPPED" in (tmp_path / "check.log").read_text()) == (outcome == "not run")


def test_what_is_missing_is_named_and_is_not_passed(tmp_path: Path) -> None:
    task = Task("loader", "needy", (), 60, ("json", "no_such_module", "nor.this"))
    real, rehearsed = checked(tmp_path, rehearse=False), checked(tmp_path)
    assert rehearsed.why_not(task) == "needs the card"
    real.about["gpu"] = None
    assert real.why_not(task) == "no CUDA device here"
    real.about["gpu"] = {"name": "a card"}
    assert real.why_not(task) == "no_such_module, nor.this missing"
    ends = []
    for found in (real, rehearsed):
        found.do(task)
        ends.append(found.end())
        found.results.append(Result("loader", "another", "failed", 0.0, ""))
        assert found.end() == 1
    assert ends == [3, 0]


def test_without_a_gpu_nothing_is_run_and_the_exit_code_says_so(tmp_path: Path) -> None:
    def call(parts: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, check.__file__, "--parts", parts, "--out", str(tmp_path)]
        variables = os.environ | {"PATH": "", "GIT_COMMIT": "0123abc"}
        return subprocess.run(command, capture_output=True, text=True, env=variables, check=False)

    run = call("quick,step")
    assert run.returncode == 3, run.stderr
    assert "quick: quick: NOT RUN, no CUDA device here" in run.stdout
    about = json.loads((tmp_path / "check.json").read_text())["checked_on"]
    # A copy without history does not say that nothing was changed.
    assert (about["commit"], about["changed_since"], about["gpu"]) == ("0123abc", None, None)
    assert "torch" in about["versions"]
    assert "--parts slow: unknown" in call("quick,slow").stderr


def test_tasks_that_time_loaders_get_the_pictures_that_are_named(tmp_path: Path) -> None:
    found = checked(tmp_path, pictures=Path("/some/pictures.tar"))
    for part in ("kernel", "loader"):
        found.do(Task(part, part, (), 60, rehearsal=("-c", "import sys; print(sys.argv)", part)))
    said = (tmp_path / "check.log").read_text()
    assert "['-c', 'kernel']" in said
    assert "['-c', 'loader', '--data-root', '/some/pictures.tar']" in said


@pytest.mark.parametrize(
    "task", [task for task in TASKS if "mptctl" in task.words], ids=lambda task: task.name
)
def test_benches_know_their_words(task: Task, mptctl: CommandLine) -> None:
    done = mptctl(*task.words[2:], "--device", "no-such-device")
    assert done.returncode == 2
    assert "no-such-device" in done.stderr
