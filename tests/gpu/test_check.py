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
from tests.gpu.machine import machine


def checked(out: Path, rehearse: bool = True, pictures: Path | None = None) -> Check:
    return Check(argparse.Namespace(out=out, rehearse=rehearse, seconds=100, pictures=pictures))


def tried(out: Path, *words: str, limit: int = 60, measures: bool = False) -> tuple[str, str]:
    """The outcome of a task with these words in a rehearsal, and why, as the file says it."""
    checked(out).do(Task("kernel", "a task", (), limit // check.SLOWER, (), measures, words))
    (result,) = json.loads((out / "check.json").read_text())["tasks"]
    return result["outcome"], result["message"]


@pytest.mark.parametrize("name", ["copy_shaped", "time_loader", "tune_kernel"])
def test_what_a_gpu_runs_can_be_imported(name: str) -> None:
    pytest.importorskip("triton")
    assert import_module(f"tests.gpu.{name}").__doc__


def test_every_test_file_for_a_gpu_is_run() -> None:
    files = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert files - {Path(__file__).stem} == {task.name for task in TASKS if task.name.startswith("test_")}
    assert {task.part for task in TASKS} == set(check.PARTS)


def test_numbers_are_kept_line_by_line_with_the_machine_and_the_rest_is_in_the_log(tmp_path: Path) -> None:
    program = (
        "import sys, os; print('{\"us\": 2.0}', flush=True); print('said', file=sys.stderr); os._exit(3)"
    )
    assert tried(tmp_path, "-c", program, measures=True) == ("failed", "exit code 3")
    about, row = map(json.loads, (tmp_path / "a task.jsonl").read_text().splitlines())
    assert row == {"us": 2.0}
    assert about["checked_on"]["versions"]["torch"]
    assert "    said\n" in (tmp_path / "check.log").read_text()


def test_what_hangs_is_killed_at_its_limit_and_what_it_printed_before_is_kept(tmp_path: Path) -> None:
    program = "import time; print('one', flush=True); time.sleep(60)"
    assert tried(tmp_path, "-c", program, limit=4) == ("failed", "killed after 4 s, its limit")
    assert "    one\n" in (tmp_path / "check.log").read_text()


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
    command = [sys.executable, check.__file__, "--parts", "quick,step", "--out", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": ""}, check=False)
    assert run.returncode == 3, run.stderr
    assert "quick: quick: NOT RUN, no CUDA device here" in run.stdout
    assert "torch" in json.loads((tmp_path / "check.json").read_text())["checked_on"]["versions"]


def test_tasks_that_time_loaders_get_the_pictures_that_are_named(tmp_path: Path) -> None:
    found = checked(tmp_path, pictures=Path("/some/pictures.tar"))
    for part in ("kernel", "loader"):
        found.do(Task(part, part, (), 60, rehearsal=("-c", "import sys; print(sys.argv)", part)))
    said = (tmp_path / "check.log").read_text()
    assert "['-c', 'kernel']" in said
    assert "['-c', 'loader', '--data-root', '/some/pictures.tar']" in said


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        check.main(["--parts", "quick,slow"])
    assert "--parts slow: unknown" in capsys.readouterr().err


@pytest.mark.parametrize(
    "task", [task for task in TASKS if "mptctl" in task.words], ids=lambda task: task.name
)
def test_benches_know_their_words(task: Task, mptctl: CommandLine) -> None:
    done = mptctl(*task.words[2:], "--device", "no-such-device")
    assert done.returncode == 2
    assert "no-such-device" in done.stderr


def test_a_copy_without_history_does_not_say_that_nothing_was_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("GIT_COMMIT", "0123abc")
    about = machine(rehearse=False)
    assert (about["commit"], about["changed_since"], about["gpu"]) == ("0123abc", None, None)
