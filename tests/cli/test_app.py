"""The command line as a whole: help, errors in one line, exit codes, and a reference page that is not stale."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from mptctl.cli.app import app, main
from mptctl.cli.docs_page import OBJECTS, render_reference, shown_commands
from mptctl.data.split import Split, make_split
from mptctl.files.request import Request
from tests.common import CommandLine, command, environment
from tests.studies.made_runs import made_seed

ROOT = Path(__file__).parent.parent.parent
COMMANDS = dict(shown_commands(app))
VERBS = list(COMMANDS)


def test_the_reference_page_is_not_stale() -> None:
    assert (ROOT / "docs" / "reference.md").read_text(encoding="utf-8") == render_reference(app), (
        "run: make docs"
    )


# Command lines that are read from standard input, and after each its exit code and what it must not have imported.
IMPORTS = """
import contextlib, json, sys
from mptctl.cli.app import main
for line in sys.stdin.read().splitlines():
    words, heavy = json.loads(line)
    sys.argv, code = ["mptctl", *words], 0
    try: main()
    except SystemExit as end: code = end.code or 0
    print(json.dumps([words, code, [m for m in heavy if m in sys.modules]]), file=sys.__stderr__)
"""


def imported(lines: list[tuple[list[str], list[str]]], folder: Path) -> tuple[str, list[Any]]:
    """Run command lines in one process, the lightest first; return what they print, and facts on each."""
    asked = "\n".join(json.dumps(line) for line in lines)
    words = [sys.executable, "-c", IMPORTS]
    out = subprocess.run(words, input=asked, capture_output=True, text=True, env=environment(), cwd=folder)
    said = out.stderr.splitlines()
    assert out.returncode == 0, said[-1]
    return out.stdout, [json.loads(line) for line in said if line.startswith("[[")]


def test_help_names_every_verb_and_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = ["torch", "torchvision", "ray", "nvidia.dali", "numpy", "pydantic", "matplotlib"]
    shown, found = imported([(["--help"], heavy)], tmp_path)
    assert found == [[["--help"], 0, []]]
    assert all(f" {verb.split()[0]} " in shown for verb in VERBS)
    assert max(map(len, shown.splitlines())) <= 80
    panels = shown.partition(" Start ")[2].splitlines()
    assert not any(line.startswith("│  ") for line in panels), "a verb's line is broken"


def test_a_small_net_needs_no_torchvision(digits: Split, mptctl: CommandLine) -> None:
    root = ["--run-root", str(digits.run_root)]
    assert mptctl("train-old", *root, "--set", "optim.max_steps=1").returncode == 0
    # torch's optimizers import torch._dynamo.
    lines = [
        ("runs", ["torchvision", "torch._dynamo"]),
        ("evaluate old", ["torchvision", "torch._dynamo"]),
        ("train-baseline pct-kl --dry-run", ["torchvision"]),
        ("train-ref --set optim.max_steps=1", ["torchvision"]),
    ]
    _, found = imported([([*line.split(), *root], heavy) for line, heavy in lines], digits.run_root)
    assert [each[1:] for each in found] == [[0, []]] * 4


def test_a_comparison_in_a_terminal_needs_no_figures(tmp_path: Path) -> None:
    """Nothing is imported that it does not need and that takes a fifth of a second or more."""
    made_seed(tmp_path / "study" / "1", 1, {"no-treatment": 2.0, "mpt-kl": 3.0})
    sample, logits = np.arange(300), np.random.default_rng(0).normal(size=(2, 300, 3))
    for name, own in zip(("old", "new"), logits, strict=True):
        np.savez(tmp_path / f"{name}.npz", id=sample, label=sample % 3, logits=own, classes=np.arange(3))
    heavy = ["torch", "matplotlib", "jinja2", "scipy.optimize", "pandas"]
    lines = ("evaluate old.npz new.npz", "evaluate old.npz new.npz --full", "compare study")
    shown, found = imported([(line.split(), heavy) for line in lines], tmp_path)
    assert [each[1:] for each in found] == [[0, []]] * 3
    assert "NFR" in shown


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], VERBS),
        (["--debug"], VERBS),
        (["bench"], ["loader", "kernel", "step"]),
        (["figure"], ["embedding"]),
        (["gate"], ["init"]),
    ],
)
def test_without_a_verb_the_help_is_printed(
    words: list[str], named: list[str], mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPTCTL_DEBUG", "")  # so that what --debug sets is gone afterwards
    plain, asked = mptctl(*words), mptctl(*words, "--help")
    assert (plain.returncode, plain.stderr, plain.stdout.strip()) == (0, "", asked.stdout.strip())
    assert all(f" {verb.split()[0]} " in plain.stdout for verb in named)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str, mptctl: CommandLine) -> None:
    out = mptctl(*verb.split(), "--help")
    assert (out.returncode, out.stderr) == (0, "")
    assert f"mptctl {verb}" in out.stdout.partition("Examples:")[2]


@pytest.mark.parametrize("verb", VERBS)
def test_the_function_of_every_verb_takes_its_record(verb: str) -> None:
    job: Any = COMMANDS[verb].callback.__wrapped__  # typer wraps what it calls
    [taken, returned] = get_type_hints(job.work).values()
    assert issubclass(job.request, Request)
    assert issubclass(job.request, taken)
    assert returned is type(None)


def test_every_verb_that_prints_json_says_in_which_form() -> None:
    assert all(title.strip("`").startswith(tuple(VERBS)) for title in OBJECTS if "--json" in title)
    for verb, found in COMMANDS.items():
        flags = {flag for param in found.params for flag in param.opts}
        assert (f"`{verb} --json`" in OBJECTS) == ("--json" in flags), verb
        assert (f"`{verb} --dry-run --json`" in OBJECTS) == ({"--json", "--dry-run"} <= flags), verb


def test_a_current_folder_that_was_deleted_is_named_as_the_cause(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"rmdir {gone} && exec {shlex.join(command('evaluate', 'a.npz', 'b.npz'))}"
    run = subprocess.run(["sh", "-c", script], cwd=gone, env=environment(), capture_output=True, text=True)
    assert run.returncode == 2
    assert run.stderr == "mptctl: the current folder has been deleted; change to one that exists\n"


def test_what_can_be_said_at_once_is_said_without_importing_torch(tmp_path: Path) -> None:
    make_split("digits", run_root=tmp_path / "runs")
    for name in ("old", "new"):
        (tmp_path / "broken" / name).mkdir(parents=True)
        (tmp_path / "broken" / name / "best.pt").write_text("weights")
    (tmp_path / "broken" / "split.json").write_text("{")
    lines = [
        "train-old --run-root broken",
        "train-mpt --run-root broken",
        "train-baseline no-treatment --run-root broken",
        "tune --run-root broken",
        "evaluate old new --run-root broken",
        "import broken/old/best.pt --arch resnet18 --class-names names.txt --run-root broken",
        "split imagefolder --data-root nowhere",
        "split digits --old-classes nowhere",
        "import x.pt --arch resnet18 --class-names x --run-root empty",
        "train-old --run-root empty",
        "train-old --resume --overwrite",
        "train-old --set optim.lr=x",
        "train-ref --recipe nothing",
        "train-mpt --print-recipe",
        "train-mpt --k nan",
        "train-mpt --name ../x",
        "train-baseline elodix",
        "train-mpt",
        "train-mpt --old older",
        "train-mpt --old runs/split.json --ref runs",
        "train-ensemble --run-root empty",
        "train-ensemble --size 0",
        "recipes nothing",
        "train-baseline elodi",
        "train-baseline elodi --old runs/split.json --ref nobody",
        "train-baseline elodi --set optim.epochs=3",
        "tune",
        "evaluate a b",
        "runs --run-root nowhere",
        "tune --run-root empty",
        "tune --k 0:8",
        "tune --trials 3",
        "evaluate a.npz b.npz",
        "predict nobody runs --out a.csv",
        "predict runs/split.json nowhere --out a.csv",
        "predict runs/split.json runs --out a.txt",
        "adjust nobody --old nobody --max-nfr 2",
        "compare nothing",
        "study nothing",
        "fewshot nobody",
        "figure embedding nobody",
        "gate init nobody runs",
        "bench kernel --rows x",
        "bench kernel --classes 1",
    ]
    _, found = imported([(line.split(), ["torch"]) for line in lines], tmp_path)
    assert [each for each in found if each[2]] == []
    assert [each[0] for each in found if not each[1]] == [["train-mpt", "--print-recipe"]]


@pytest.mark.parametrize(
    ("line", "completed"),
    [("mptctl bench lo", ["loader"]), ("mptctl split --ol", ["--old-fraction", "--old-classes"])],
)
def test_a_shell_completes_commands_and_flags(line: str, completed: list[str], tmp_path: Path) -> None:
    script = "import sys; sys.argv = ['mptctl']\nfrom mptctl.__main__ import main\nmain()\n"
    asked = {"_MPTCTL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True,
        env=environment(**asked), cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.stdout.split() == completed, done.stderr


def test_a_fault_that_nobody_foresaw_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(root: Path, folders: list[Path]) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("mptctl.cli.train.find_split", fail)
    monkeypatch.setattr(sys, "argv", ["mptctl", "train-old", "--run-root", str(tmp_path), "--seed", "7"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said == (
        "mptctl: a bug of mptctl's: ZeroDivisionError: a b; please report it with what --debug shows\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] can't allocate memory"),
        ImportError("/lib/_duckdb.so: failed to map segment from shared object"),
    ],
)
def test_memory_that_runs_out_is_7_with_advice(
    error: Exception, monkeypatch: pytest.MonkeyPatch, mptctl: CommandLine, tmp_path: Path
) -> None:
    def fail(root: Path, folders: list[Path]) -> None:
        raise error

    monkeypatch.setattr("mptctl.cli.train.find_split", fail)
    done = mptctl("train-old", "--run-root", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (7, 1)
    assert "not enough memory" in done.stderr
    assert "optim.batch_size" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback(
    mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MPTCTL_DEBUG", "")  # so that what --debug sets is gone afterwards
    out = mptctl("--debug", "train-old", "--run-root", tmp_path)
    assert out.returncode == 2
    assert "Traceback" in out.stderr
    assert "Traceback" not in mptctl("train-old", "--run-root", tmp_path).stderr


def test_what_triton_holds_is_freed_before_the_program_ends() -> None:
    """Else triton 3.9 prints 35 lines on what it leaked, after the verdict."""
    pytest.importorskip("triton", reason="triton is not installed")
    script = """
import os, sys, triton

class InACircle:
    def __init__(self, write=os.write):
        self.itself, self.write = self, write
    def __del__(self):
        self.write(2, b"freed")

triton.held = InACircle()
sys.argv = ["mptctl", "--version"]
from mptctl.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment()
    )
    assert (done.returncode, done.stderr) == (0, "freed")
