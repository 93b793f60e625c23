"""Rows 59 and 60: an output takes the place of no file that a run, a split or a study holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import make_split
from mptctl.files.kept_names import is_kept
from mptctl.models.run_folder import RunDir
from tests.cli.test_app import COMMANDS
from tests.common import CommandLine
from tests.faults.conftest import write_pair
from tests.faults.test_outputs import contents

GATED = "evaluate old.npz new.npz"


@dataclass(frozen=True)
class Written:
    """A flag that writes.

    Attributes:
        words: a command that has it.
        flag: with the folder that it takes, or without a value.
        names: of files that it writes, by their endings.
    """

    words: str
    flag: str
    names: tuple[str, ...]


TABLE = (
    Written(GATED, "--report", ("page.html", "page.htm", "page")),
    Written(GATED, "--markdown", ("page.md", "README")),
    Written(GATED, "--junit", ("gate.xml", "gate")),
    Written(GATED, "--save-predictions DIR", ("old.npz", "new.npz")),
    Written(GATED, "--flips", ("flips.csv",)),
    Written(GATED, "--append-history", ("releases.jsonl", "notes.txt")),
    Written("evaluate new.npz", "--report", ("page.html",)),
    Written("disagree old.npz new.npz", "--out", ("to_label.csv",)),
    Written("disagree old.npz new.npz", "--page", ("label.html",)),
    Written("compare old new", "--csv", ("table.csv", "data.txt")),
    Written("compare old new", "--latex", ("table.tex",)),
    Written("compare old new", "--markdown", ("table.md",)),
    Written("compare old new", "--report", ("page.html",)),
    Written("predict new pictures", "--out", ("answers.csv", "answers.npz", "answers.parquet")),
    Written("export new --format onnx", "--out", ("model.onnx",)),
    Written("export new --format safetensors", "--out", ("model.safetensors",)),
    Written("fewshot old new --analysis", "--out", ("margins.png", "margins.svg")),
    Written("figure embedding old new", "--out", ("embedding.png", "embedding.svg")),
    Written("figure augment --epoch 0", "--out", ("augment.png", "augment.svg")),
    Written("split digits", "--report", ("page.html",)),
    Written("study demo", "--report", ("page.html",)),
    Written("gate init old.npz new.npz", "--out", ("gate.yaml",)),
)
# Flags of files and folders that do not write into a file that a user names: they read, or write folders of ours.
OTHERS = {
    "--class-labels", "--class-map", "--class-names", "--data-root", "--gate", "--labels",
    "--log", "--metadata", "--old-classes", "--pictures", "--plugin", "--recipe", "--run-root", "--temperature",
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with predictions, a history, pictures, and a run root with runs that nobody reads."""
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path, np.arange(4))
    make_split("digits", run_root=tmp_path / "runs")
    for name in ("old", "new"):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "best.pt").write_text("weights")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "history.jsonl").touch()
    return tmp_path


def words_of(written: Written, path: Path) -> list[str]:
    """The command, its flag, and the file or the folder of it."""
    flag, _, takes_folder = written.flag.partition(" ")
    return [*written.words.split(), flag, str(path.parent if takes_folder else path)]


def cases() -> list[tuple[Written, str]]:
    return [(written, name) for written in TABLE for name in written.names]


def test_row_59_every_flag_of_every_verb_is_in_the_table_or_writes_no_file_of_a_name() -> None:
    """Of a new flag for a file: put it into `TABLE`; or into `OTHERS`."""
    verbs = {verb for verb in COMMANDS if any(written.words.startswith(verb) for written in TABLE)}
    tested = {
        (verb, written.flag.split()[0])
        for written in TABLE
        for verb in verbs
        if written.words.startswith(f"{verb} ")
    }
    there = {
        (verb, parameter.opts[0])
        for verb, command in COMMANDS.items()
        for parameter in command.params
        if any(what in str(parameter.metavar) for what in ("FILE", "DIR", "TRACKER"))
        and parameter.opts[0].startswith("--")
    }
    assert {(verb, flag) for verb, flag in there if flag not in OTHERS} == tested


@pytest.mark.parametrize(("written", "name"), cases())
def test_row_59_a_read_only_file_stays(mptctl: CommandLine, files: Path, written: Written, name: str) -> None:
    target = files / "mine" / name
    target.parent.mkdir()
    target.touch(0o444)
    done = mptctl(*words_of(written, target))
    assert done.returncode == 2, done.stderr
    assert f"{name}: is read-only" in done.stderr
    assert target.read_bytes() == b""


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    ("words", "path"),
    [
        (f"{GATED} --report", "runs/tune/tune.html"),
        ("predict new pictures --out", "runs/new/answers.npz"),
        (f"{GATED} --append-history", "runs/new/metrics.jsonl"),
        ("gate init old.npz new.npz --out", "runs/new/recipe.yaml"),
        (f"{GATED} --markdown", "runs/new/environment.json"),
    ],
)
def test_row_59_what_mptctl_keeps_in_its_own_folders_is_no_output(
    mptctl: CommandLine, files: Path, words: str, path: str, there: bool
) -> None:
    (files / "runs" / "tune").mkdir()
    (files / "runs" / "tune" / "trials.json").write_text("{}")
    if there:
        (files / path).touch()
    before = contents(files)
    done = mptctl(*words.split(), path)
    assert done.returncode == 2, done.stderr
    assert f"{path}: is a file that mptctl keeps in" in done.stderr
    assert contents(files) == before


def test_row_59_elsewhere_such_a_name_is_a_name_as_any_other(mptctl: CommandLine, files: Path) -> None:
    assert mptctl(*GATED.split(), "--markdown", "best.pt").returncode == 0


def test_row_59_earlier_outputs_are_replaced(mptctl: CommandLine, files: Path) -> None:
    words = (
        "--report out/page --markdown out/page.md --junit out/gate.xml "
        "--save-predictions out --append-history out/releases.jsonl"
    )
    for _ in range(2):
        assert mptctl(*GATED.split(), *words.split()).returncode == 0


def test_row_59_another_programs_split_json_is_not_overwritten(mptctl: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text('{"train": ["a", "b"], "test": ["c"]}')
    before = contents(tmp_path)
    done = mptctl("split", "digits", "--run-root", tmp_path, "--overwrite")
    assert done.returncode == 2, done.stderr
    assert "split.json: was not written by mptctl" in done.stderr
    assert contents(tmp_path) == before
    (tmp_path / "split.json").write_text('{\n  "schema_version": 1, "cut')
    assert mptctl("split", "digits", "--run-root", tmp_path, "--overwrite").returncode == 0


def test_kept_names_are_those_that_are_kept(runs: Path) -> None:
    names = {path.name for path in (runs / "new").iterdir() if path.is_file()}
    assert [name for name in names if not is_kept(name)] in ([], ["lock"])


def test_row_60_a_finished_run_that_is_resumed_stays_as_it_is(mptctl: CommandLine, runs: Path) -> None:
    new = runs / "new"
    before = {name: (new / name).read_bytes() for name in ("environment.json", "recipe.yaml", "best.pt")}
    done = mptctl("train-ref", "--run-root", runs, "--name", "new", "--resume")
    assert done.returncode == 0, done.stderr
    assert {name: (new / name).read_bytes() for name in before} == before


def test_row_72_the_split_of_a_run_that_trains_is_not_replaced(mptctl: CommandLine, runs: Path) -> None:
    before = {path.name: path.read_bytes() for path in runs.glob("*") if path.is_file()}
    words = ("split", "digits", "--run-root", runs, "--seed", "3", "--overwrite")
    with RunDir(runs / "seed" / "more").locked("refuse"):
        done = mptctl(*words)
        assert done.returncode == 2, done.stderr
        assert f"--overwrite: {runs / 'seed' / 'more'} is being written" in done.stderr
        assert {path.name: path.read_bytes() for path in runs.glob("*") if path.is_file()} == before
    (runs / "lock").write_text("somebody's notes")  # no lock of ours holds nothing
    assert mptctl(*words).returncode == 0
