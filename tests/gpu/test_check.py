"""`make gpu-check` itself, as far as it can be tried without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.common import CommandLine
from tests.gpu import check
from tests.gpu.check import TASKS, Task
from tests.gpu.machine import machine
from tests.gpu.record import Record
from tests.gpu.results import NotRunError, Result, attempt

TELL = "from tests.gpu.results import Result, attempt; "
# A process that is told of one thing, fails at another, and goes on to a third.
THREE = (
    "-c",
    TELL
    + "attempt('one', lambda: Result('one', 'passed', 1.5, 'said', {'us': 2.0})); attempt('two', lambda: 1 / 0); "
    "attempt('three', lambda: 'fine')",
)


def record(tmp_path: Path, seconds: float = 100.0) -> Record:
    return Record(tmp_path, machine(rehearse=True), seconds)


def outcomes(tmp_path: Path, part: str) -> dict[str, str]:
    found = json.loads((tmp_path / "check.json").read_text())
    return {result["name"]: result["outcome"] for result in found["parts"][part]}


@pytest.mark.parametrize("name", ["copy_shaped", "quick", "time_kernel", "time_loader", "tune_kernel"])
def test_what_a_gpu_runs_can_be_imported(name: str) -> None:
    pytest.importorskip("triton")
    assert import_module(f"tests.gpu.{name}").__doc__


def test_every_test_file_for_a_gpu_is_run() -> None:
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    assert files - {Path(__file__).name} == {task.name for task in TASKS if task.name.startswith("test_")}
    assert {task.part for task in TASKS} == set(check.PARTS)


def test_each_result_is_written_at_once_and_an_error_ends_one_thing_alone(tmp_path: Path) -> None:
    found = record(tmp_path)
    check.run(Task("kernel", "three of them", THREE, 60, (), "numbers.json"), found, rehearse=False)
    assert outcomes(tmp_path, "kernel") == {
        "one": "passed",
        "two": "failed",
        "three": "passed",
        "three of them": "passed",
    }
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["rows"] == [{"us": 2.0}]
    assert numbers["checked_on"]["versions"]["torch"]
    suite = ElementTree.parse(tmp_path / "check.xml").getroot().find("testsuite")
    failure = suite.find("testcase[@name='two']/failure")
    assert failure.get("message") == "ZeroDivisionError: division by zero"
    assert found.end(rehearse=True) == 1


def test_what_hangs_is_killed_at_its_limit_and_what_it_told_before_is_kept(tmp_path: Path) -> None:
    words = ("-c", TELL + "import time; attempt('one', lambda: None); time.sleep(60)")
    found = record(tmp_path)
    check.run(Task("kernel", "hangs", words, 2), found, rehearse=False)
    assert outcomes(tmp_path, "kernel") == {"one": "passed", "hangs": "failed"}
    assert "killed after 2 s" in (tmp_path / "check.log").read_text()


def test_what_dies_or_says_nothing_has_failed(tmp_path: Path) -> None:
    found = record(tmp_path)
    check.run(Task("kernel", "dies", ("-c", "import os; os._exit(3)"), 60), found, rehearse=False)
    check.run(Task("kernel", "silent", ("-c", "pass"), 60), found, rehearse=False)
    assert outcomes(tmp_path, "kernel") == {"dies": "failed", "silent": "failed"}


def test_what_is_missing_is_named_and_is_not_passed(tmp_path: Path) -> None:
    task = Task("loader", "needy", THREE, 60, ("json", "no_such_module", "nor.this"))
    assert check.why_not(task, has_gpu=True, rehearse=False) == "no_such_module, nor.this missing"
    assert check.why_not(task, has_gpu=False, rehearse=False) == "no CUDA device here"
    assert check.why_not(task, has_gpu=False, rehearse=True) == "needs the card"
    found = record(tmp_path)
    found.add("loader", Result("needy", "not run", 0.0, "nor.this missing"))
    assert found.end(rehearse=False) == 3
    assert found.end(rehearse=True) == 0
    assert "NOT RUN loader: needy: nor.this missing" in (tmp_path / "check.log").read_text()


def test_what_cannot_be_tried_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def refuses() -> None:
        raise NotRunError("needs the card")

    attempt("replay", refuses)
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], told["outcome"], told["message"]) == ("replay", "not run", "needs the card")


def test_without_a_gpu_nothing_is_run_and_the_exit_code_says_so(tmp_path: Path) -> None:
    command = [sys.executable, check.__file__, "--parts", "quick,step", "--out", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": ""}, check=False)
    assert run.returncode == 3, run.stderr
    assert "card: NONE" in run.stdout
    assert "quick: quick: NOT RUN, no CUDA device here" in run.stdout
    assert outcomes(tmp_path, "quick") == {"quick": "not run"}
    assert "torch" in json.loads((tmp_path / "check.json").read_text())["checked_on"]["versions"]


def test_tasks_that_time_loaders_get_the_pictures_that_are_named(tmp_path: Path) -> None:
    tell = ("-c", TELL + "import sys; attempt(sys.argv[-1], lambda: None)")
    found = record(tmp_path)
    for words in (tell, (*tell, "loader")):
        check.run(
            Task("loader", "told", words, 60), found, rehearse=False, pictures=Path("/some/pictures.tar")
        )
    assert set(outcomes(tmp_path, "loader")) == {"-c", "/some/pictures.tar", "told"}


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        check.main(["--parts", "quick,slow"])
    assert "--parts slow: unknown" in capsys.readouterr().err


@pytest.mark.nightly
def test_a_verb_keeps_its_numbers(tmp_path: Path) -> None:
    task = next(task for task in TASKS if task.name == "gpu-step")
    check.run(task, record(tmp_path), rehearse=True)
    assert outcomes(tmp_path, "step") == {"gpu-step": "passed"}
    found = json.loads((tmp_path / "gpu-step.json").read_text())
    assert {row["name"] for row in found["rows"]} >= {"student", "ours"}


@pytest.mark.parametrize(
    "task", [task for task in TASKS if task.words[1] == "mptctl"], ids=lambda task: task.name
)
def test_the_verbs_know_their_words(task: Task, mptctl: CommandLine) -> None:
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
