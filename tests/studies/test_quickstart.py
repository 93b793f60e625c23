"""The quickstart: the whole story, once, for real, on fewer characters than a user gets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from mptctl.cli.app import app
from mptctl.data import characters
from mptctl.errors import UsageError
from mptctl.report.documents.study import quickstart_document
from mptctl.studies.quickstart import QuickstartResult, difference_in_words, quickstart
from tests.common import CommandLine
from tests.forked import mptctl_process
from tests.report.golden import piped


def test_the_whole_story_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(characters, "TRAIN_PER_CLASS", 20)
    monkeypatch.setattr(characters, "TEST_PER_CLASS", 10)
    out = CliRunner().invoke(app, ["quickstart", "--run-root", str(tmp_path / "runs"), "--json"])
    assert out.exit_code == 0, out.output
    result = QuickstartResult.model_validate(json.loads(out.stdout))
    assert [row.model for row in result.rows] == ["old", "ref", "no-treatment", "mpt-kl"]
    for row in result.rows:
        assert row.n_old == 310
        assert row.nfr == pytest.approx(row.negative_flips / row.n_old)
        # A sixteenth of the pictures does not make a good model; guessing errs on 30 of 31 and 61 of 62.
        assert row.er_old_classes < 0.9
    # The old model flips nothing of its own, and knows none of the new half of the characters.
    assert result.rows[0].negative_flips == 0
    assert result.rows[0].er_all is None
    assert all(row.er_all is not None and 0 < row.er_all < 0.9 for row in result.rows[1:])
    for name in ("old", "ref", "no-treatment", "mpt-kl"):
        assert (tmp_path / "runs" / name / "best.pt").is_file()
    assert str(result.rows[3].negative_flips) in result.meaning
    assert "<html" in Path(result.report).read_text()
    rows = [line.split()[:3] for line in piped(quickstart_document(result)).splitlines()]
    assert ["mpt-kl", str(result.rows[3].negative_flips), "310"] in rows
    # What stands in its table is what evaluate says of the same runs.
    evaluated = mptctl_process("evaluate", "old", "mpt-kl", "--run-root", tmp_path / "runs", "--json")
    assert json.loads(evaluated.stdout)["nfr"] == result.rows[3].nfr
    with pytest.raises(UsageError, match="already holds old, ref, no-treatment, mpt-kl"):
        quickstart(tmp_path / "runs", on_update=lambda board: None, log=print)


def test_a_file_for_a_run_root_is_answered_by_the_flag_that_quickstart_has(
    tmp_path: Path, mptctl: CommandLine
) -> None:
    (tmp_path / "file").touch()
    for run_root in (tmp_path / "file", tmp_path / "file" / "below"):
        done = mptctl("quickstart", "--run-root", run_root)
        assert done.returncode == 2
        assert done.stderr == f"mptctl: {run_root}: Not a directory; use another --run-root\n"


def test_a_difference_within_noise_is_called_that() -> None:
    one, other = np.zeros(100, bool), np.zeros(100, bool)
    one[:6], other[6:10] = True, True
    assert difference_in_words(one, other) == "no more than sampling noise"
    one[20:50] = True
    assert difference_in_words(one, other) == "more than sampling noise"
