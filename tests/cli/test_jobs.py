"""Commands as a record and a function: which belong together, and what of a command line becomes the record."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from mptctl.cli.app import COMMANDS
from mptctl.cli.commands import training
from mptctl.cli.jobs import Job, job
from mptctl.files.request import Flag, Request, argument
from tests.common import environment

JOBS = {
    name: command
    for commands in COMMANDS.values()
    for name, entry in commands.items()
    for command in (
        [entry] if isinstance(entry, Job) else [each.callback for each in entry.registered_commands]
    )
}


@pytest.mark.parametrize("command", JOBS.values(), ids=JOBS)
def test_the_work_of_a_command_takes_its_record(command: Job) -> None:
    (asked,) = inspect.signature(command.work, eval_str=True).parameters.values()
    assert asked.annotation is command.request
    command.json_models()


def test_help_of_tune_shows_a_budget_and_its_level_in_one_panel() -> None:
    app = typer.Typer()
    app.command()(training.tune)
    panels = {
        param.name: getattr(param, "rich_help_panel", None) for param in typer.main.get_command(app).params
    }
    assert panels["confidence"] == panels["max_nfr"] == "What is chosen"


class Base(Request):
    """A setting that others share."""

    seed: Annotated[int, Flag("N", "Of all runs.", low=0)] = 3


class Asked(Base):
    """Settings of every form."""

    source: Annotated[str, argument("SOURCE")]
    words: Annotated[list[str], Flag("WORD", names="--word -w")] = Field([])
    """Words,
    on two lines."""


taken: list[Asked] = []


@job("made:Asked", "made:work")
def verb() -> None:
    """Take a record."""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """A program with one command, whose record is `Asked`."""
    taken.clear()
    monkeypatch.setattr(Job, "request", Asked)
    monkeypatch.setattr(Job, "work", staticmethod(taken.append))
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(verb)
    return app


def test_own_fields_come_before_shared_ones_with_their_texts(program: typer.Typer) -> None:
    params = typer.main.get_command(program).params[:3]
    assert [param.name for param in params] == ["source", "words", "seed"]
    assert [getattr(param, "help", None) for param in params[1:]] == ["Words, on two lines.", "Of all runs."]


def test_only_what_is_typed_counts_as_given(program: typer.Typer) -> None:
    for words in (["x"], ["x", "-w", "a", "--word", "b", "--seed", "3"]):
        done = CliRunner().invoke(program, words)
        assert done.exit_code == 0, done.output
    assert taken[0] == Asked(source="x")
    assert (taken[0].seed, taken[0].words, taken[0].model_fields_set) == (3, [], {"source"})
    assert taken[1].words == ["a", "b"]
    assert taken[1].model_fields_set == {"source", "words", "seed"}


@pytest.mark.parametrize("words", [[], ["x", "--seed", "-1"], ["x", "--other", "y"]])
def test_what_the_record_does_not_take_is_wrong_usage(program: typer.Typer, words: list[str]) -> None:
    assert CliRunner().invoke(program, words).exit_code == 2
    assert taken == []


@pytest.mark.parametrize(
    ("line", "completed"),
    [("mptctl bench lo", ["loader"]), ("mptctl split --ol", ["--old-fraction", "--old-classes"])],
)
def test_a_shell_completes_commands_and_flags(line: str, completed: list[str], tmp_path: Path) -> None:
    script = "import sys; sys.argv = ['mptctl']\nfrom mptctl.__main__ import main\nmain()\n"
    asked = {"_MPTCTL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True,
        env={**os.environ, **environment(), **asked}, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.stdout.split() == completed, done.stderr
