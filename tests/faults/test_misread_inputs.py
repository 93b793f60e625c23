"""Rows 53, 55, 57, 67, 68, 75 and 76: sound inputs that could be read as something else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import mptctl
from mptctl.errors import DataError, MptctlError, UsageError
from mptctl.integrations import FlipMonitor
from mptctl.names import Session
from tests.common import CommandLine
from tests.evaluation.files import write
from tests.faults.small_pairs import IDS, LABELS, good, refused

NUMBERS = np.arange(12) % 3


@pytest.mark.parametrize("form", [".npz", ".csv", ".parquet"])
def test_row_53_a_sigmoid_is_no_model_of_one_class(tmp_path: Path, mptctl: CommandLine, form: str) -> None:
    """All labels are 0, and so is the largest of one column: a model that is never wrong."""
    columns = {"id": IDS, "label": np.zeros(12, dtype=int)}
    old = write(tmp_path / f"old{form}", **columns, logits=np.linspace(-3, 3, 12, dtype=np.float32)[:, None])
    new = write(tmp_path / f"new{form}", **columns, pred=np.zeros(12, dtype=int))
    said = refused(mptctl, 4, old, new, "--max-nfr", "1")
    assert f"old{form}: `logits` is one column" in said
    assert "(N, 2)" in said and "`pred`" in said


def test_row_53_one_column_in_python() -> None:
    labels, column = np.zeros(12, dtype=int), np.linspace(-3, 3, 12)[:, None]
    for old, new in ((column, labels), (labels, column)):
        with pytest.raises(DataError, match="`logits` is one column"):
            mptctl.evaluate(labels, old=old, new=new)
    with pytest.raises(DataError, match="`logits` is one column"):
        FlipMonitor(labels, labels, say=None).update(column)
    # Integers and text of that shape are answers.
    report = mptctl.evaluate(NUMBERS, old=NUMBERS[:, None], new=np.zeros((12, 1), dtype=int))
    assert (report.counts.negative_flips, report.n) == (8, 12)


def test_row_53_integers_of_one_column_in_an_archive_are_answers(tmp_path: Path, mptctl: CommandLine) -> None:
    columns = {"id": IDS, "label": NUMBERS[:, None], "classes": [0, 1, 2]}
    old = write(tmp_path / "old.npz", **columns, pred=NUMBERS[:, None])
    new = write(tmp_path / "new.npz", **columns, pred=np.zeros((12, 1), dtype=int))
    report = json.loads(mptctl("evaluate", old, new, "--json").stdout)
    assert report["counts"]["negative_flips"] == 8


def parts(folder: Path) -> Path:
    """Two parts of six rows, and what Spark leaves beside them."""
    folder.mkdir()
    for i in range(2):
        rows = slice(6 * i, 6 * i + 6)
        write(folder / f"part-{i}.csv", id=IDS[rows], label=LABELS[rows], pred=LABELS[rows])
    for name in ("_SUCCESS", ".part-0.csv.crc", "part-0.csv.crc"):
        (folder / name).write_bytes(b"")
    return folder


def _subfolder(folder: Path) -> None:
    (folder / "day=2").mkdir()
    shutil.copy(folder / "part-1.csv", folder / "day=2" / "part-2.csv")


UNREAD: dict[str, Callable[[Path], object]] = {
    "packed": lambda folder: (folder / "part-2.csv.gz").write_bytes(b"\x1f\x8b"),
    "of another form": lambda folder: (folder / "part-2.tsv").write_text("id\tlabel\tpred\nx\tcat\tcat\n"),
    "a link to nothing": lambda folder: (folder / "part-2.csv").symlink_to(folder / "nothing.csv"),
    "a folder below": _subfolder,
    "a pipe": lambda folder: os.mkfifo(folder / "part-2.csv"),
    "a folder of that name": lambda folder: (folder / "part-2.csv").mkdir(),
}
MATCHED = {
    "a link to nothing": "part-2.csv: a link to nothing",
    "a folder of that name": "part-2.csv: a folder",
}


@pytest.mark.parametrize("damage", UNREAD)
def test_row_55_a_part_that_cannot_be_read_is_named(tmp_path: Path, mptctl: CommandLine, damage: str) -> None:
    old = parts(tmp_path / "old")
    UNREAD[damage](old)
    said = refused(mptctl, 4, old, good(tmp_path / "new.csv"), "--max-nfr", "1")
    assert "part-2" in said or "day=2" in said
    if damage in MATCHED:  # a pattern passes it over no more than a folder does
        assert MATCHED[damage] in refused(mptctl, 4, f"{old}/part-*.csv", tmp_path / "new.csv")


def test_row_55_what_other_writers_leave_is_counted(tmp_path: Path, mptctl: CommandLine) -> None:
    done = mptctl("evaluate", parts(tmp_path / "old"), good(tmp_path / "new.csv"), "--json")
    report = json.loads(done.stdout)
    assert report["n"] == 12
    assert [text for text in report["warnings"] if "3 files of other writers passed over" in text]


@pytest.mark.parametrize("answers", [None, "right"])
def test_row_57_adjust_counts_the_old_classes_of_the_split(
    runs: Path, tmp_path: Path, mptctl: CommandLine, answers: str | None
) -> None:
    """An OLD without `classes`, or that stands for the right answers: half of the validation part is of new classes."""
    from mptctl.inference.named_models import load_predictions

    val = load_predictions({"old": str(runs / "old")}, Session(runs, "cpu"), part="val").models["old"]
    pred = val.labels if answers == "right" else val.preds
    old = write(tmp_path / "old.npz", id=val.ids, label=val.labels, pred=pred)
    words = (
        "adjust", "new", "--old", old, "--max-nfr", "99", "--run-root", runs, "--device", "cpu", "--json",
    )  # fmt: skip
    done = mptctl(*words)
    assert done.returncode == 0, done.stderr
    of_old = sum(label in {"0", "1", "2", "3", "4"} for label in val.labels.tolist())
    assert 0 < of_old < len(val.labels)
    assert json.loads(done.stdout)["validation"]["samples_old"] == of_old
    assert "--old-classes" not in done.stderr


@pytest.mark.parametrize("name", ["file_row_number", "file_index", "filename", "File_Row_Number"])
def test_row_67_columns_called_as_the_reader_calls_its_own(
    tmp_path: Path, mptctl: CommandLine, name: str
) -> None:
    order = [*range(1, 12), 0]
    for model, preds in (("old", LABELS), ("new", ["dog", *LABELS[1:]])):
        folder = tmp_path / model
        folder.mkdir()
        for part, rows in enumerate((slice(0, 6), slice(6, 12))):
            columns = {"id": IDS[rows], "label": LABELS[rows], "pred": list(preds)[rows], name: order[rows]}
            parquet.write_table(pa.table(columns), folder / f"{part}.parquet")
    done = mptctl("evaluate", tmp_path / "old", tmp_path / "new", "--by", name, "--min-slice", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["counts"]["negative_flips"] == 1
    assert [flip["id"] for flip in report["worst_flips"]] == ["s0"]
    assert {row["by"][name]: row["negative_flips"] for row in report["slices"]} == {
        str(value): int(value == 1) for value in order
    }


@pytest.mark.parametrize("ids", [[2.0**53, 2.0**53 + 2], [0.5, 1.5]])
def test_row_67_ids_of_metadata_that_floats_do_not_tell_apart(
    tmp_path: Path, mptctl: CommandLine, ids: list[float]
) -> None:
    whole = [int(value) if value > 1 else i for i, value in enumerate(ids)]
    files = [
        write(tmp_path / f"{name}.npz", id=np.array(whole), label=["cat", "dog"], pred=pred)
        for name, pred in (("old", ["cat", "dog"]), ("new", ["cat", "cat"]))
    ]
    parquet.write_table(pa.table({"id": ids, "country": ["de", "fr"]}), tmp_path / "meta.parquet")
    said = refused(mptctl, 4, *files, "--metadata", tmp_path / "meta.parquet", "--by", "country")
    assert "meta.parquet: 2 of 2 values of `id` are not whole numbers" in said


PICTURES = ["a", "b", "c", "d"]


def test_row_68_an_ignored_label_counts_nowhere() -> None:
    watch = FlipMonitor([0, 1, -100, 1], [0, 1, 1, 0], ids=PICTURES, say=None)
    report = watch(np.eye(2)[[1, 1, 0, 1]], ids=PICTURES)
    assert (report.n, report.counts.negative_flips, report.counts.positive_flips) == (3, 1, 1)
    # The last batch may leave it out.
    assert watch([0, 1, 1], ids=["a", "b", "d"]).n == 3
    trainer = SimpleNamespace(predictions=np.eye(2)[[1, 1, 0, 1]], label_ids=np.array([0, 1, -100, 1]))
    assert watch.compute_metrics(trainer)["n_old"] == 3


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0, 1, -1, 1], "1 of 4 are negative (-1)"),
        (np.array([0.2, 1.9, 2.0, 1.0]), "4 of 4 are no integers (0.2, 1.9, 2.0"),
        ([0, 1, 3, 1], "no column of the logits, 0..2"),
    ],
)
def test_row_68_labels_that_are_none(labels: Any, said: str) -> None:
    """-1 was read as the last class, and 1.9 as 1."""
    with pytest.raises(DataError, match=r"^labels: ") as error:
        FlipMonitor(labels, [0, 1, 1, 0], say=None)(np.eye(3)[[0, 1, 1, 0]])
    assert said in str(error.value)
    watch = FlipMonitor(["a", "b", "c", "b"], ["a", "b", "c", "b"], classes=["a", "b", "c"], say=None)
    for ids, also in ((labels, said), ([0, 1, -100, 1], "1 of 4 are not the stored labels")):
        with pytest.raises(DataError, match=r"^label_ids: ") as error:
            watch.compute_metrics(
                SimpleNamespace(predictions=np.eye(3)[[0, 1, 2, 1]], label_ids=np.array(ids))
            )
        assert also in str(error.value)


TWO_AGES = np.array(["a", "b"] * 50 + ["n"] * 50)
BEFORE, AFTER = np.where(TWO_AGES == "n", "a", TWO_AGES), np.where(np.arange(150) < 6, "n", TWO_AGES)


def of_two_ages(tmp_path: Path, **columns: Any) -> tuple[Path, Path]:
    """100 samples of classes that OLD knows, 6 of them lost, and 50 of a class that came after it."""
    ids = [f"s{i}" for i in range(150)]
    return (
        write(tmp_path / "old.npz", id=ids, label=TWO_AGES, pred=BEFORE, **columns),
        write(tmp_path / "new.npz", id=ids, label=TWO_AGES, pred=AFTER, classes=["a", "b", "n"]),
    )


def test_row_75_an_old_model_that_does_not_say_what_it_knows(tmp_path: Path, mptctl: CommandLine) -> None:
    """6 of the 100 samples whose label OLD predicts are 6 %; 6 of all 150 would be 4 %."""
    pair = of_two_ages(tmp_path)
    done = mptctl("evaluate", *pair, "--max-nfr", "5", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["gate"]["failed"], report["nfr"]) == (3, ["max-nfr"], 0.06)
    assert report["never_predicted"] == ["n"]
    assert any("the 2 labels that it predicts count as old, and not n" in text for text in report["warnings"])
    # Where a person says which it is, that is what holds.
    assert mptctl("evaluate", *pair, "--max-nfr", "5", "--old-classes", "all").returncode == 0
    (tmp_path / "old.txt").write_text("a\nb\n")
    assert mptctl("evaluate", *pair, "--max-nfr", "5", "--old-classes", tmp_path / "old.txt").returncode == 3
    known = of_two_ages(tmp_path, classes=["a", "b"])
    assert json.loads(mptctl("evaluate", *known, "--json").stdout)["never_predicted"] == []


@pytest.mark.parametrize("limit", [("--max-rel-nfr", "90"), ("--max-er-increase", "-1")])
def test_row_75_a_limit_that_is_easier_to_keep_without_the_labels_that_old_never_predicts(
    limit: tuple[str, str], tmp_path: Path, mptctl: CommandLine
) -> None:
    pair = of_two_ages(tmp_path)
    done = mptctl("evaluate", *pair, *limit)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert (
        f"{limit[0]} {limit[1]}: OLD does not say which classes it knows, and never predicts n" in done.stderr
    )
    key, slices = limit[0].removeprefix("--").replace("-", "_"), "slices: [{by: {class: a}, %s: %s}]\n"
    (tmp_path / "gate.yaml").write_text(slices % (key, limit[1]))
    done = mptctl("evaluate", *pair, "--gate", tmp_path / "gate.yaml")
    assert done.returncode == 2
    assert f"gate.yaml: slices[0]: {key} {limit[1]}: OLD does not say" in done.stderr
    (tmp_path / "gate.yaml").write_text("old_classes: all\n" + slices % (key, limit[1]))
    assert mptctl("evaluate", *pair, "--gate", tmp_path / "gate.yaml").returncode in (0, 3)


def test_row_75_in_python() -> None:
    for old_classes, passed in ((None, False), ("all", True), (["a", "b"], False)):
        report = mptctl.evaluate(TWO_AGES, old=BEFORE, new=AFTER, old_classes=old_classes)
        assert (report.gate(max_nfr=0.05).passed, report.gate(max_nfr=0.07).passed) == (passed, True)
    report = mptctl.evaluate(TWO_AGES, old=BEFORE, new=AFTER)
    with pytest.raises(
        UsageError, match=r"^max_rel_nfr 90: OLD does not say .* predicts n, .*; give old_classes$"
    ):
        report.gate(max_rel_nfr=0.9)


def test_row_76_a_setting_of_another_criterion(tmp_path: Path, trained: Path, mptctl: CommandLine) -> None:
    from mptctl.methods import build_criterion

    (tmp_path / "own.yaml").write_text("criterion: {smoothing: 0.2}\n")
    words = ("train-old", "--run-root", trained, "--name", "other", "--print-recipe")
    for more, owner in (
        (("--set", "criterion.smoothing=0.05"), "ls"),  # the default, which is not the user's choice either
        (("--set", "criterion.name=mbls", "--set", "criterion.gamma=2"), "fl"),
        (("--recipe", tmp_path / "own.yaml"), "ls"),
    ):
        done = mptctl(*words, *more)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"is a setting of {owner}, and changes nothing where criterion.name is" in done.stderr
    for fine in (
        (tmp_path / "own.yaml", "--set", "criterion.name=ls"),
        (trained / "old" / "recipe.yaml",),  # the recipe of a run holds every key
        ("digits", "--set", "method.tau=3"),  # every method takes every key of `method`
    ):
        assert mptctl(*words, "--recipe", *fine).returncode == 0
    with pytest.raises(MptctlError, match="is a setting of mbls"):
        build_criterion("ce", margin=10.0)
