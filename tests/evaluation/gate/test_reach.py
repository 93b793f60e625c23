"""Limits on Rel-NFR that the samples at hand cannot exceed: the message says where the limit stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.common import CommandLine
from tests.evaluation.files import write


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("slices: [{by: {half: x}, max_rel_nfr: 1500}]", "gate.yaml: slices[0]: max_rel_nfr 1500: Rel-NFR of 4 samples"
         " is never above 400 %"),
        ("limits: {max_rel_nfr: 1001}", "gate.yaml: limits: max_rel_nfr 1001: Rel-NFR of 10 samples"
         " is never above 1,000 %"),
        (None, "--max-rel-nfr 1001: Rel-NFR of 10 samples is never above 1,000 %"),
    ],
)  # fmt: skip
def test_the_gate_file_and_the_slice_are_named(
    rules: str | None, message: str, tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten samples; OLD, which never predicts b, gets the eight of class a right."""
    monkeypatch.chdir(tmp_path)
    known = {"id": range(10), "label": ["a"] * 8 + ["b"] * 2}
    write(Path("old.csv"), **known, pred=["a"] * 10, classes=["a", "b"], half=list("xxyyyyyyxx"))
    write(Path("new.csv"), **known, pred=["b"] + ["a"] * 9)
    Path("gate.yaml").write_text(rules or "")
    words = ("--max-rel-nfr", "1001") if rules is None else ("--gate", "gate.yaml")
    done = mptctl("evaluate", "old.csv", "new.csv", *words)
    assert (done.returncode, done.stderr) == (2, f"mptctl: {message}; set a limit below that\n")
