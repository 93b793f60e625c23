"""`must_keep` and gate files in Python: as the command line judges the same samples."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mptctl
from mptctl.errors import DataError, UsageError
from tests.common import CommandLine

GATE = """confidence: 0.95
limits: {max_nfr: 12.0}
slices: [{by: {country: de}, max_nfr: 1.0}]
must_keep: {ids: [s001], file: keep.txt}
waivers: [{id: s001, reason: disputed, owner: jo, expires: 2999-01-01}]
"""
N = 300


@pytest.fixture
def frame(tmp_path: Path) -> pd.DataFrame:
    """300 samples, of which every tenth flips from s001 on; their order is not that of the ids."""
    (tmp_path / "gate.yaml").write_text(GATE)
    (tmp_path / "keep.txt").write_text("s002\n")
    number = np.arange(N)
    labels = np.array(["cat", "dog"])[number % 2]
    return pd.DataFrame(
        {
            "id": [f"s{i:03d}" for i in number],
            "y": labels,
            "prod": labels,
            "cand": np.where(number % 10 == 1, np.array(["dog", "cat"])[number % 2], labels),
            "country": np.array(["de", "fr", "it"])[number % 3],
        }
    ).sample(frac=1, random_state=0)


def compared(frame: pd.DataFrame, **asked: object) -> mptctl.Report:
    return mptctl.evaluate(frame, label="y", old="prod", new="cand", id="id", old_classes="all", **asked)


def test_a_gate_file_is_held_against_a_frame_as_the_command_line_does(
    frame: pd.DataFrame, tmp_path: Path, mptctl: CommandLine
) -> None:
    (tmp_path / "gate.yaml").write_text(f"old_classes: all\n{GATE}")
    gate = compared(frame).gate(tmp_path / "gate.yaml", max_nfr=0.11)
    for role in ("prod", "cand"):
        frame.rename(columns={"y": "label", role: "pred"})[["id", "label", "pred"]].to_csv(
            tmp_path / f"{role}.csv", index=False
        )
    frame[["id", "country"]].to_csv(tmp_path / "meta.csv", index=False)
    files = (tmp_path / "prod.csv", tmp_path / "cand.csv", "--metadata", tmp_path / "meta.csv")
    done = mptctl("evaluate", *files, "--gate", tmp_path / "gate.yaml", "--max-nfr", 11, "--json")
    assert gate.model_dump(mode="json") == json.loads(done.stdout)["gate"]
    assert gate.failed == ["max-nfr", "max-nfr of country=de"]
    assert [row.flips for row in gate.waivers] == [1]


def test_samples_that_must_be_kept_fail_every_gate(frame: pd.DataFrame, tmp_path: Path) -> None:
    report = compared(frame, must_keep=["s011", "s012"])
    assert report.result.gate.failed == ["must-keep"]
    assert report.gate().failed == ["must-keep"]
    assert report.gate(max_nfr=0.5).failed == ["must-keep"]
    assert compared(frame, must_keep=np.array(["s012"])).gate(max_nfr=0.5).passed
    both = pickle.loads(pickle.dumps(report)).gate(tmp_path / "gate.yaml")
    kept = next(check for check in both.checks if check.name == "must-keep")
    assert (kept.counted, kept.waived) == (1, 1)  # s011; s001 is waived
    with pytest.raises(DataError, match=r"^gate: 1 ids are not in the test set \(nobody\)"):
        compared(frame, must_keep=["nobody"])
    with pytest.raises(UsageError, match=r"^gate .*nowhere.yaml: cannot be read"):
        report.gate(tmp_path / "nowhere.yaml")


def test_an_undecided_limit_beside_samples_that_must_be_kept_does_not_pass() -> None:
    labels = ["cat", "dog"] * 50
    new = ["dog", *labels[1:]]  # one flip of a hundred
    report = mptctl.evaluate(labels, old=labels, new=new, old_classes=["cat", "dog"], must_keep=["5"])
    assert report.gate(max_nfr=0.02, confidence=0.95).failed == ["max-nfr"]
