"""The command line as a whole: help, errors in one line, exit codes, and a reference page that is not stale."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mptctl.cli.app import app, main
from mptctl.cli.docs_page import render_reference
from tests.common import environment, mptctl_process

ROOT = Path(__file__).parent.parent.parent
VERBS = (
    "quickstart",
    "split",
    "import",
    "train-old",
    "train-ref",
    "train-mpt",
    "train-baseline",
    "evaluate",
    "doctor",
    "tune",
)


def test_the_reference_page_is_not_stale() -> None:
    assert (ROOT / "docs" / "reference.md").read_text(encoding="utf-8") == render_reference(app), (
        "run: make docs"
    )


def test_help_names_every_verb_and_imports_nothing_heavy() -> None:
    heavy = "torch", "torchvision", "ray", "nvidia.dali", "numpy", "pydantic", "matplotlib"
    script = (
        "import sys; sys.argv = ['mptctl', '--help']\n"
        "from mptctl.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code\n"
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr); sys.exit(code)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=False
    )
    assert out.returncode == 0
    assert out.stderr.strip() == "[]"
    assert all(f" {verb} " in out.stdout for verb in VERBS)
    assert max(map(len, out.stdout.splitlines())) <= 80


def test_files_of_predictions_are_compared_without_torch(tmp_path: Path) -> None:
    for name, answers in (("old", [0, 1, 2, 3]), ("new", [0, 1, 2, 2])):
        np.savez(tmp_path / f"{name}.npz", id=np.arange(4), label=np.arange(4), pred=np.array(answers))
    script = (
        "import sys; sys.argv = ['mptctl', 'evaluate', 'old.npz', 'new.npz', '--json']\n"
        "from mptctl.cli.app import main\n"
        "try: main()\n"
        "finally: print([m for m in ('torch', 'torchvision') if m in sys.modules], file=sys.stderr)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        check=False,
    )
    assert json.loads(out.stdout)["counts"]["negative_flips"] == 1
    assert out.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "verbs"), [([], VERBS), (["--debug"], VERBS), (["bench"], ("loader", "kernel", "step"))]
)
def test_without_a_verb_the_help_is_printed(
    words: list[str],
    verbs: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MPTCTL_DEBUG", "")  # so that what --debug sets is gone afterwards
    found = []
    for more in ([], ["--help"]):
        monkeypatch.setattr(sys, "argv", ["mptctl", *words, *more])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
        out, err = capsys.readouterr()
        assert err == ""
        found.append(out.strip())
    assert all(f" {verb} " in found[0] for verb in verbs)
    assert found[0] == found[1]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    out = mptctl_process(verb, "--help")
    assert out.returncode == 0
    assert "Examples:" in out.stdout
    assert f"mptctl {verb}" in out.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["train-mtp"], 2, "train-mtp"),
        (["train-mpt", "--kk", "3"], 2, "--kk"),
        (["train-mpt", "--k", "many"], 2, "--k"),
        (["train-mpt", "--distance", "l2"], 2, "l2"),
        (["train-old"], 2, "mptctl split"),
        (["evaluate", "old"], 2, "NEW"),
        (["split", "imagefolder", "--data-root", "nowhere"], 4, "nowhere"),
        (["evaluate", "a.npz", "b.npz"], 4, "a.npz"),
        (["evaluate", "a", "b"], 5, "a: no such run or file"),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(
    words: list[str], code: int, message: str, tmp_path: Path
) -> None:
    out = subprocess.run(
        [sys.executable, "-m", "mptctl", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        check=False,
    )
    assert out.returncode == code, out.stderr
    assert out.stdout == ""
    assert out.stderr.count("\n") == 1
    assert message in out.stderr


def test_a_fault_that_nobody_foresaw_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(root: Path) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("mptctl.data.split.load_split", fail)
    monkeypatch.setattr(sys, "argv", ["mptctl", "train-old"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "mptctl: unexpected ZeroDivisionError: a b; mptctl --debug shows where, for a report\n"
    )


def test_one_seed_for_all_verbs_makes_no_twins(
    digits_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = []
    for verb in (["train-old"], ["train-ref"], ["train-baseline", "no-treatment"]):
        for flag in (["--set", "runtime.seed=3"], ["--seed", "3"]):
            words = ["mptctl", *verb, "--run-root", str(digits_root), "--print-recipe", *flag]
            monkeypatch.setattr(sys, "argv", words)
            with pytest.raises(SystemExit):
                main()
            (line,) = (line for line in capsys.readouterr().out.splitlines() if "seed:" in line)
            seeds.append(int(line.split()[1]))
    assert seeds == [2003, 3, 1003, 3, 3, 3]


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    out = mptctl_process("--debug", "train-old", "--run-root", tmp_path)
    assert out.returncode == 2
    assert "Traceback" in out.stderr


def test_the_version_is_printed() -> None:
    assert mptctl_process("--version").stdout.startswith("mptctl 0.")


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    line = f"{sys.executable} -m mptctl --help | true"
    out = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, env=environment(), check=False
    )
    assert "Traceback" not in out.stderr
