"""Row 66: ids and classes that are commands of a CI system, or formulas of a spreadsheet."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from mptctl.evaluation.reading.side_table import SideTable
from mptctl.evaluation.reading.spreadsheet_cells import FLIP_COLUMNS, as_cell
from mptctl.evaluation.reading.workspace import current, workspace
from mptctl.report.documents.comparison_files import render_csv
from mptctl.report.documents.flip_list import flips_csv
from mptctl.report.documents.flips_object import Report
from mptctl.studies.comparison import Comparison
from tests.faults.process import run_forked
from tests.report.examples import example
from tests.report.test_comparison import comparison  # noqa: F401  # a fixture

COMMANDS = (
    "::error::forged",
    "::stop-commands::x",
    "##[error]forged",
    "a##[add-mask]b",
    " ::warning::forged",
)
OBEYED = re.compile(r"^\s*::|##\[", re.MULTILINE)


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Path, Path]:
    """Predictions whose ids and classes are commands, and all of which flip."""
    ids, label = np.array(COMMANDS), np.array([*COMMANDS[:3], "a", "a"])
    new = np.array(["a", "a", "a", *COMMANDS[3:]])
    for name, pred in (("old", label), ("new", new)):
        np.savez(tmp_path / f"{name}.npz", id=ids, label=label, pred=pred, classes=np.unique([*label, *new]))
    return tmp_path / "old.npz", tmp_path / "new.npz"


@pytest.mark.parametrize(
    "words", [(), ("--full",), ("--markdown", "-"), ("--by", "class", "--max-nfr", "1"), ("--json",)]
)
def test_row_66_no_line_of_a_workflows_log_is_a_command(
    hostile: tuple[Path, Path], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = run_forked("evaluate", *hostile, *words)
    assert done.returncode in (0, 3), done.stderr
    assert not OBEYED.search(done.stdout)
    assert not OBEYED.search(done.stderr)
    if words == ("--json",):
        flips = json.loads(done.stdout)["worst_flips"]
        assert {flip["id"] for flip in flips} == set(COMMANDS)


def test_row_66_an_error_that_names_one_is_none(
    hostile: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (tmp_path / "gate.yaml").write_text('must_keep: {ids: ["##[error]no such id"]}\n')
    done = run_forked("evaluate", *hostile, "--gate", tmp_path / "gate.yaml")
    assert (done.returncode, OBEYED.search(done.stderr)) == (4, None)
    assert "\\x23#[error]no such id" in done.stderr


def test_row_66_our_own_annotations_are_commands(
    hostile: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = run_forked("evaluate", *hostile, "--github", "--max-nfr", "1")
    kinds = [line.split()[0] for line in done.stderr.splitlines() if line.startswith("::")]
    assert kinds[0] == "::error"
    assert kinds[-1] == "::notice"
    assert not OBEYED.search(done.stdout)


@pytest.mark.parametrize("before", ["", "a line\n", "a line\r", "a line\n  "])
@pytest.mark.parametrize("command", [*COMMANDS, "\n::x", "###[x", ":::x"])
def test_row_66_a_command_that_comes_in_pieces(before: str, command: str) -> None:
    """Each piece is harmless, and so is what they make together."""
    from mptctl.cli.streams import _WithoutCommands

    cuts = [{at, other} for at in range(len(command)) for other in range(len(command))]
    for cut in [*cuts, set(range(len(command)))]:
        raw = io.BytesIO()
        stream = _WithoutCommands(raw, encoding="utf-8", newline="")
        stream.write(before)
        places = sorted({0, *cut, len(command)})
        for start, end in itertools.pairwise(places):
            stream.write(command[start:end])
        stream.flush()
        assert OBEYED.search(raw.getvalue().decode()) is None, (cut, raw.getvalue())


def test_row_66_after_an_annotation_of_ours_a_command_in_pieces_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mptctl.cli.streams import _WithoutCommands, write_commands

    raw = io.BytesIO()
    stream = _WithoutCommands(raw, encoding="utf-8", newline="", line_buffering=True)
    monkeypatch.setattr("sys.stderr", stream)
    stream.write("in the middle of a line")
    write_commands("\n::error::ours\n")
    stream.write(":")
    stream.write(":error::forged")
    stream.flush()
    text = raw.getvalue().decode()
    assert [line for line in text.splitlines() if line.startswith("::")] == ["::error::ours"]


def test_row_66_tables_for_people_hold_no_formula(comparison: Comparison) -> None:  # noqa: F811
    report = comparison
    hostile = [
        row.model_copy(update={"name": f"{sign}1+1"}) for row, sign in zip(report.rows, "=+-@'", strict=False)
    ]
    rows = list(csv.reader(io.StringIO(render_csv(report.model_copy(update={"rows": hostile})))))
    assert [row[0] for row in rows[1:]] == [f"'{row.name}" for row in hostile[:4]] + [
        row.name for row in hostile[4:]
    ]


def test_row_66_a_list_of_flips_is_read_as_it_was(tmp_path: Path) -> None:
    texts = ["=1+1", "@x", "-x", "+x", "'=x", "''-x", "'x", "cat"]
    flips = [
        flip.model_copy(update={"id": text, "label": text, "by": {}})
        for flip, text in zip(example().worst_flips * 8, texts, strict=False)
    ]
    result = example().model_copy(update={"worst_flips": flips})
    assert tuple(Report(result).flips.column_names) == FLIP_COLUMNS
    path = tmp_path / "flips.csv"
    path.write_text(flips_csv(result.worst_flips), encoding="utf-8")
    found = rows_of(path)
    assert [row[0] for row in found[1:]] == [as_cell(text) for text in texts]
    assert not any(row[0][:1] in "=+-@" for row in found[1:])
    with workspace():
        side = SideTable(path, ["label"])
        assert set(current().fetch(f"SELECT id, s0 FROM {side.relation}")) == {(text, text) for text in texts}
    other = tmp_path / "other.csv"
    other.write_text("id,label\n'=1+1,'=x\n")
    with workspace():
        side = SideTable(other, ["label"])
        assert current().fetch(f"SELECT id, s0 FROM {side.relation}") == [("'=1+1", "'=x")]


def test_row_66_predictions_keep_their_bytes(tmp_path: Path) -> None:
    from mptctl.evaluation.reading.answers import Answers

    ids = np.array(["=1", "+2", "-3", "@4"])
    made = Answers(ids, ids, np.ones(4), np.eye(4, dtype=np.float32), tuple(ids))
    made.save(tmp_path / "answers.csv")
    rows = rows_of(tmp_path / "answers.csv")
    assert [row[0] for row in rows[1:]] == ids.tolist()
