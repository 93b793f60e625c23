"""`mptctl.evaluate(OLD, NEW)`: files and frames that have their own ids, as the command takes files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import mptctl as package
from mptctl.errors import DataError, UsageError
from mptctl.integrations import FlipMonitor
from tests.common import CommandLine
from tests.evaluation.files import write

IDS = [f"s{i}" for i in range(20)]
LABELS = ["cat", "dog", "dog", "emu"] * 5
OLD = {"id": IDS, "label": LABELS, "pred": ["cat", "dog", "cat", "dog"] * 5}
# In another order, with one flip: s0 was right.
NEW = {"id": IDS[::-1], "label": LABELS[::-1], "pred": [*LABELS[:0:-1], "dog"]}
CLASSES = ["cat", "dog"]
MAKERS: list[Callable[[dict[str, Any]], Any]] = [pd.DataFrame, pa.table]


def counts_of(report: Any) -> tuple[int, int, int]:
    return report.n_old, report.counts.negative_flips, report.counts.positive_flips


@pytest.mark.parametrize("form", [".csv", ".npz", ".parquet"])
def test_two_files_are_compared_as_the_command_does(tmp_path: Path, mptctl: CommandLine, form: str) -> None:
    old, new = write(tmp_path / f"old{form}", **OLD), write(tmp_path / f"new{form}", **NEW)
    report = package.evaluate(str(old), new, old_classes=CLASSES)
    assert counts_of(report) == (15, 1, 5)
    (tmp_path / "old.txt").write_text("cat\ndog\n")
    said = mptctl("evaluate", old, new, "--old-classes", tmp_path / "old.txt", "--json").stdout
    assert report.model_dump_json() == said.rstrip("\n")
    assert report.flips.column("id").to_pylist() == ["s0"]
    assert report.gate(max_nfr=0.1).passed


@pytest.mark.parametrize("make", MAKERS)
def test_two_frames_with_ids_are_matched_by_them(make: Callable[[dict[str, Any]], Any]) -> None:
    report = package.evaluate(make(OLD), make(NEW), old_classes=CLASSES)
    assert counts_of(report) == (15, 1, 5)
    assert (report.old.name, report.new.name) == ("old", "new")


@pytest.mark.parametrize("make", MAKERS)
def test_logits_classes_names_of_columns_and_slices_of_frames(
    make: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    classes = ["cat", "dog", "emu"]
    logits = [[3.0 if name == label else 0.0 for name in classes] for label in NEW["pred"]]
    new = make({"key": NEW["id"], "y": NEW["label"], "logits": logits, "classes": [classes] * 20})
    old = make({"key": IDS, "y": LABELS, "pred": OLD["pred"], "country": ["de", "fr"] * 10})
    report = package.evaluate(old, new, id="key", label="y", old_classes=CLASSES, by="country")
    assert counts_of(report) == (15, 1, 5)
    assert report.new.ece is not None
    assert report.small_slices == 2
    (tmp_path / "gate.yaml").write_text("limits: {max_nfr: 10}\nslices: [{by: {country: de}, max_nfr: 9}]\n")
    assert report.gate(tmp_path / "gate.yaml").failed == ["max-nfr of country=de"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"old": OLD["pred"]}, "give labels with old= and new="),
        ({"classes": CLASSES}, "classes: is for arrays"),
        ({"ids": IDS}, "ids: is for arrays"),
    ],
)
def test_arguments_of_arrays_are_refused_beside_two_models(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        package.evaluate(pd.DataFrame(OLD), pd.DataFrame(NEW), **given)


def test_what_is_no_pair_of_models_is_refused() -> None:
    old, new = pd.DataFrame(OLD), pd.DataFrame(NEW)
    with pytest.raises(UsageError, match="new: neither a predictions file nor a frame"):
        package.evaluate(old)
    with pytest.raises(UsageError, match="give evaluate"):
        package.evaluate(LABELS, LABELS)
    for column in ("id", "pred"):
        with pytest.raises(UsageError, match="no column of the frame"):
            package.evaluate(old, new.drop(columns=column))
    with pytest.raises(DataError, match="lacks 1 of its ids"):
        package.evaluate(old, new[:-1])
    with pytest.raises(DataError, match=r"nothing\.csv"):
        package.evaluate("nothing.csv", new)


def test_the_report_of_a_monitor_prints_its_table() -> None:
    labels = np.arange(40) % 4
    monitor = FlipMonitor(labels, labels, say=None)
    report = monitor(np.where(np.arange(40) < 3, (labels + 1) % 4, labels))
    assert "NFR      right before, wrong now" in str(report)
    assert report.nfr == monitor.history[-1].nfr == 3 / 40
    assert not report.gate(max_nfr=0.05).passed
