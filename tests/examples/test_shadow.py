"""The example of two models behind one service: it logs, asks for labels, and gates once they suffice."""

from __future__ import annotations

import csv
import os
import runpy
import subprocess
from pathlib import Path

import numpy as np

from tests.common import ROOT, environment, programs

CLASSES = ["cat", "dog"]


def test_a_release_goes_out_once_labels_show_it(tmp_path: Path) -> None:
    shadow = runpy.run_path(str(ROOT / "examples" / "shadow" / "serve.py"))["Shadow"]
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 2000)
    right = {"old": rng.random(2000) < 0.9, "new": np.ones(2000, dtype=bool)}
    right["new"][:10] = False

    def model(role: str):  # type: ignore[no-untyped-def]
        return lambda row: np.eye(2)[truth[row] if right[role][row] else 1 - truth[row]].tolist()

    day = tmp_path / "day"
    service = shadow(model("old"), model("new"), {"old": CLASSES, "new": CLASSES}, day, rows=600)
    answers = [service.answer(f"request/{row}", row) for row in range(2000)]
    service.flush()
    assert [answer == CLASSES[truth[row]] for row, answer in enumerate(answers)] == right["old"].tolist()
    assert len(list((day / "new").iterdir())) == 4

    variables = environment(PATH=f"{programs(tmp_path / 'bin')}:{os.environ['PATH']}")

    def night() -> int:
        job = [str(ROOT / "examples" / "shadow" / "nightly.sh"), str(day)]
        return subprocess.run(job, env=variables, check=False, capture_output=True).returncode

    assert night() == 3
    with (day / "to_label.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == int((right["old"] != right["new"]).sum())
    codes = []
    for labelled in (5, len(rows)):
        for row in rows[:labelled]:
            row["label"] = CLASSES[truth[int(row["id"].partition("/")[2])]]
        with (day / "labelled.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        codes.append(night())
    assert codes == [3, 0]
    assert "PASSED" in (day / "gate.md").read_text()
