"""`--log` with the one tracker that is always there, and what a tracker that fails does to the rest: nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mptctl
from mptctl.files import scratch_folder
from mptctl.models.metrics_log import MetricsLine
from mptctl.report.trackers.logged_comparison import write_attachments
from mptctl.report.trackers.logged_run import line_values, tracker_entries
from tests.common import CommandLine


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`old.npz` and `new.npz`: of four samples one is lost."""
    monkeypatch.chdir(tmp_path)
    labels = np.array(["cat", "cat", "dog", "dog"])
    for role, said in (("old", labels), ("new", ["cat", "dog", "dog", "dog"])):
        np.savez(f"{role}.npz", id=np.arange(4), label=labels, pred=np.array(said), classes=["cat", "dog"])
    return tmp_path


def test_a_comparison_of_files_is_an_entry_of_its_own(answers: Path, mptctl: CommandLine) -> None:
    out = mptctl("evaluate", "old.npz", "new.npz", "--log", "tensorboard", "--log", "tensorboard")
    assert out.returncode == 0, out.stderr
    (file,) = (answers / "runs" / "tensorboard").iterdir()
    assert b"evaluate/negative_flips" in file.read_bytes()
    assert b"| 25.00 %" in file.read_bytes()  # the report as Markdown


def test_the_report_and_the_flips_are_attached_and_nothing_else() -> None:
    labels = np.array(["cat", "cat", "dog", "dog"])
    report = mptctl.evaluate(labels, old=labels, new=np.array(["cat", "dog", "dog", "dog"]))
    with scratch_folder() as folder:
        names = [path.name for path in write_attachments(report.result, folder)]
        assert sorted(names) == ["flips.csv", "report.html", "report.json", "report.md"]
        assert len(names) < len(list(folder.iterdir()))  # a lock of ours lies there too


def test_a_tracker_that_fails_is_one_warning(answers: Path, mptctl: CommandLine) -> None:
    (answers / "runs").mkdir()
    (answers / "runs" / "tensorboard").write_text("in the way")
    out = mptctl("evaluate", "old.npz", "new.npz", "--log", "tensorboard", "--max-nfr", "1")
    assert out.returncode == 3  # the gate's own
    warnings = [line for line in out.stderr.splitlines() if "--log" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("warning: --log tensorboard: failed (")
    assert "NFR" in out.stdout


@pytest.mark.parametrize("content", ["", "[]", "{", '{"mlflow": "1"}'])
def test_what_is_damaged_is_as_if_it_were_new(content: str, tmp_path: Path) -> None:
    (tmp_path / "trackers.json").write_text(content)
    assert tracker_entries(tmp_path) == ({"mlflow": "1"} if "1" in content else {})


def test_lines_as_numbers() -> None:
    line = MetricsLine(event="step", epoch=1, step=3, lr=0.5, terms={"ce": 1.0}, seconds_left=9.0)
    assert line_values(line) == {"epoch": 1, "lr": 0.5, "terms/ce": 1.0}
    assert line_values(MetricsLine(event="checkpoint", epoch=1, step=3)) == {}
