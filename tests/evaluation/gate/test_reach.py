"""Limits on Rel-NFR that the samples at hand cannot exceed: the message says where the limit stands."""

from __future__ import annotations

from pathlib import Path

import pytest

import mptctl
from mptctl.errors import UsageError
from tests.common import CommandLine
from tests.evaluation.files import write

# Ten samples; OLD, which never predicts b, gets the eight of class a right.
LABELS, OLD, NEW = ["a"] * 8 + ["b"] * 2, ["a"] * 10, ["b"] + ["a"] * 9
IDS = [str(i) for i in range(10)]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            "slices: [{by: {half: x}, max_rel_nfr: 1500}]",
            "gate.yaml: slices[0]: max_rel_nfr 1500: Rel-NFR of 4 samples is never above 400 %; set a limit below that",
        ),
        (
            "limits: {max_rel_nfr: 1001}",
            "gate.yaml: limits: max_rel_nfr 1001: Rel-NFR of 10 samples is never above 1,000 %; set a limit below that",
        ),
        (None, "--max-rel-nfr 1001: Rel-NFR of 10 samples is never above 1,000 %; set a limit below that"),
    ],
)
def test_the_gate_file_and_the_slice_are_named(
    rules: str | None, message: str, tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("old.csv"), id=IDS, label=LABELS, pred=OLD, classes=["a", "b"])
    write(Path("new.csv"), id=IDS, label=LABELS, pred=NEW)
    write(Path("meta.csv"), id=IDS, half=["x" if i in (0, 1, 8, 9) else "y" for i in range(10)])
    Path("gate.yaml").write_text(rules or "")
    words = ("--max-rel-nfr", "1001") if rules is None else ("--gate", "gate.yaml", "--metadata", "meta.csv")
    done = mptctl("evaluate", "old.csv", "new.csv", *words)
    assert (done.returncode, done.stderr) == (2, f"mptctl: {message}\n")


@pytest.mark.filterwarnings("ignore::mptctl.errors.ComparisonWarning")
def test_python_names_the_argument() -> None:
    report = mptctl.evaluate(LABELS, old=OLD, new=NEW, old_classes="all")
    with pytest.raises(
        UsageError, match=r"^max_rel_nfr 1001: Rel-NFR of 10 samples .* set a limit below that$"
    ):
        report.gate(max_rel_nfr=10.01)
