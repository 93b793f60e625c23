"""Rows 12, 13, 20, 26, 27, 39, 40, 42 and 48: predictions and gates from which no verdict may follow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.common import CommandLine
from tests.evaluation.damage import Rng, cut, encrypt, flip_a_bit, other_fields, other_header, repeat_a_column
from tests.evaluation.files import write
from tests.faults.small_pairs import IDS, LABELS, good, refused
from tests.forked import mptctl_process


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_row_12_logits_that_are_not_finite(tmp_path: Path, mptctl: CommandLine, bad: float) -> None:
    logits = np.eye(3, dtype=np.float32)[np.arange(12) % 3]
    columns = {"id": IDS, "label": np.arange(12) % 3}
    old = write(tmp_path / "old.npz", **columns, logits=logits)
    new = write(tmp_path / "new.npz", **columns, logits=np.where(np.arange(12)[:, None] < 2, bad, logits))
    said = refused(mptctl, 6, old, new, "--max-nfr", "1")
    assert "new.npz: 2 of 12 rows of logits are not finite" in said


def test_row_13_nothing_to_compare_and_a_rate_that_is_not_defined(
    tmp_path: Path, mptctl: CommandLine
) -> None:
    old = good(tmp_path / "old.npz", pred=["cow"] * 12, classes=["cow"])
    knows = good(tmp_path / "knows.npz", classes=["cow", "cat", "dog", "bird"])
    assert "none of its 12 samples is of an old class" in refused(mptctl, 4, old, knows)
    perfect = good(tmp_path / "new.npz")
    was = good(tmp_path / "was.npz", pred=["dog"] * 11 + ["cat"])
    done = mptctl("evaluate", was, perfect, "--json", "--max-rel-nfr", "50", "--old-classes", "all")
    assert (done.returncode, json.loads(done.stdout)["rel_nfr"]) == (3, None)


def test_row_42_a_parquet_column_whose_figures_do_not_fit_its_type(tmp_path: Path) -> None:
    # A number in `label` asks for a look at each row, which begins with the figures of the file's columns.
    good(tmp_path / "new.parquet", label=pa.array(LABELS), pred=pa.array(LABELS))
    content = (tmp_path / "new.parquet").read_bytes()
    nullable, required = b"\x25\x02\x18\x05label", b"\x25\x00\x18\x05label"  # of the column, in its footer
    assert content.count(nullable) == 1
    (tmp_path / "old.parquet").write_bytes(content.replace(nullable, required))
    done = mptctl_process("evaluate", tmp_path / "old.parquet", tmp_path / "new.parquet")
    assert done.returncode == 4, (done.returncode, done.stderr)
    assert "old.parquet: " in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": [*IDS[:11], "other"]}, "other"),
        ({"id": [*IDS[:11], "s0"]}, "s0"),
        ({"label": ["dog", *LABELS[1:]]}, "s0"),
        ({"id": IDS[:11], "label": LABELS[:11], "pred": LABELS[:11]}, "s11"),
    ],
)
@pytest.mark.parametrize("form", [".npz", ".csv", ".parquet"])
def test_row_20_ids_and_labels_that_do_not_match(
    tmp_path: Path, mptctl: CommandLine, changes: dict[str, Any], message: str, form: str
) -> None:
    old, new = good(tmp_path / f"old{form}"), good(tmp_path / f"new{form}", **changes)
    assert message in refused(mptctl, 4, old, new)


def test_row_26_one_and_the_same_model(tmp_path: Path, mptctl: CommandLine) -> None:
    answers = [*LABELS[:11], "cat"]
    old = good(tmp_path / "old.npz", pred=answers)
    for new in (old, good(tmp_path / "new.csv", pred=answers)):
        done = mptctl("evaluate", old, new, "--max-nfr", "1", "--json")
        assert (done.returncode, json.loads(done.stdout)["identical"]) == (3, True)
        assert mptctl("evaluate", old, new, "--max-nfr", "1", "--allow-identical").returncode == 0
        assert "old and new are the same model" in mptctl("evaluate", old, new).stdout.lower()


def test_row_27_an_old_model_whose_right_answers_are_lost(tmp_path: Path, mptctl: CommandLine) -> None:
    wrong = ["cat" if x != "cat" else "dog" for x in LABELS]
    old = good(tmp_path / "old.npz", pred=[*LABELS[:10], *wrong[10:]])
    new = good(tmp_path / "new.npz", pred=[*wrong[:10], *LABELS[10:]])
    done = mptctl("evaluate", old, new, "--max-lost", "50", "--json")
    assert (done.returncode, json.loads(done.stdout)["lost"]) == (3, 1.0)
    assert "10 of the 10 right predictions of the old model are lost" in done.stdout
    # And one that is hardly ever right.
    old = good(tmp_path / "poor.npz", pred=[LABELS[0], *wrong[1:]])
    assert "hardly ever right" in mptctl("evaluate", old, new, "--json").stdout


ODD = {
    "1.5": np.full(12, 1.5), "inf": np.full(12, np.inf), "2e19": np.full(12, 2e19), "2^53": np.full(12, 2.0**53),
    "2^11 in half": np.full(12, 2048, np.float16), "dates": np.full(12, "2020-01-01", "M8[D]"),
    "times": np.arange(12).astype("m8[s]"), "truth": np.arange(12) > 5, "complex": np.full(12, 1j),
    "structures": np.zeros(12, [("a", "i4")]), "not UTF-8": np.full(12, b"\xff\xfe"),
    "half a character": np.array(["\ud800"] * 12), "NUL": np.array(["a\0b"] * 12), "empty": np.array([""] * 12),
}  # fmt: skip


ARROW = {
    "dates": pa.array([18_000] * 12, pa.date32()), "times": pa.array([0] * 12, pa.timestamp("us")),
    "decimals": pa.array([1] * 12).cast(pa.decimal128(30, 2)), "bytes": pa.array([b"\xff\xfe"] * 12),
    "lists": pa.array([["a"]] * 12), "structures": pa.array([{"a": 1}] * 12), "nothing": pa.nulls(12),
    "a NUL": pa.array(["a\0b"] * 12), "truth": pa.array([True] * 12), "null rows": pa.array([None, *LABELS[1:]]),
}  # fmt: skip


LINES = {
    "not UTF-8": b"\xff\xfe,cat,cat\n", "half a character": b"\xed\xa0\x80,cat,cat\n", "a NUL": b"a\0b,cat,cat\n",
    "too few fields": b"x,cat\n", "too many fields": b"x,cat,cat,cat\n", "an open quote": b'x,cat,"cat\n',
    "a quote at the end": b'a,5",0\n', "a blank before": b'a, "0",0\n', "a blank behind": b'a,"0" ,0\n',
    "text behind": b'a,"0"1,0\n', "two within": b'a,0""1,0\n', "one alone": b'a,0,"\n', "two behind": b'"a"",0,0\n',
}  # fmt: skip


# Values that are no list of classes: in cells of a CSV, in a column of Parquet, in an archive.
LISTS: dict[str, list[Any]] = {
    ".csv": [[cell] * 12 for cell in (
        "{'cat', 'dog'}", '{"cat": 0, "dog": 1}', "'021'", '"021"', "021", "0", "", "[]", "[['cat'], ['dog']]",
        "['cat', None]", "['cat', True]", "['cat', 1.5]", "[0, 1.5]", "[0", "[cat, dog]", '["cat", "\\ud800"]',
        '["cat", ""]', "[" * 5000,
    )] + [["['cat', 'dog']"] * 11 + ["['dog', 'cat']"]],
    ".parquet": [
        pa.array([["cat", "dog"]] * 11 + [["cat", "dog", "emu"]]), pa.array([["cat", "dog"]] * 11 + [None]),
        pa.array([["cat", "dog"]] * 11 + [None], type=pa.list_(pa.string(), 2)), pa.array([["cat", None]] * 12),
        pa.array([[["cat"], ["dog"]]] * 12), pa.array([[]] * 12, type=pa.list_(pa.string())),
        pa.array([[True, False]] * 12), pa.array([[0.5, 1.0]] * 12), pa.array(["021"] * 12),
        pa.array([{"cat": 0, "dog": 1}] * 12),
    ],
    ".npz": ["021", [["cat", "dog"]], [], [0.5, 1], [True, False]],
}  # fmt: skip
# Cells of a CSV that hold no logits.
CELLS = ("[1, true]", '["1", "2"]', "[1, null]", "[[1], [2]]", "{}", "1", "[1 2]", "", '"12"', "[]")
PLACES, ROWS = np.arange(12) % 2, np.eye(2)[np.arange(12) % 2]
# Columns in place of sound ones, of which None takes one away, or a row at the end; and the reason, without which a
# later refusal might hide a lost guard.
Change = dict[str, Any] | bytes
REFUSED: list[tuple[str, str, Change, str]] = [
    *((f"{column}: {kind}", form, {column: value}, rf"`{column}` (holds|hold|are not|of 12 rows) |Invalid UTF8")
      for form, values in ((".npz", ODD), (".parquet", ARROW)) for kind, value in values.items()
      for column in ("id", "label", "pred")),
    *((kind, ".csv", row, "line 14 |1 rows have other than the 3 fields") for kind, row in LINES.items()),
    *(("classes", form, {"classes": value}, "`classes`") for form, values in LISTS.items() for value in values),
    *(("logits", ".csv", {"label": PLACES, "pred": None, "logits": ["[0.0, 1.0]"] * 11 + [cell]},
       "row 12.*`logits`|different lengths") for cell in CELLS),
    *(("logits", ".parquet", {"label": PLACES, "pred": None, "logits": pa.array(rows)}, said)
      for rows, said in (([[0.0, 1.0]] * 11 + [[None, 1.0]], r"`logits` holds empty items in 1 rows \(row 12\)"),
                         ([[0.0, 1.0]] * 11 + [None], "`logits`"),
                         ([[0.0, 1.0]] * 11 + [[1.0]], "different lengths"),
                         ([[0.0, 1.0]] * 11 + [[1.0, 2.0, 3.0]], "different lengths"))),
    *(("labels", ".npz", {"label": labels * 3, "pred": None, "logits": np.tile(np.eye(4, 3), (3, 1))}, said)
      for labels, said in (
          ([1, 2, 3, 3], r"count from 1 .*\(9 of 12 predictions are right one class further, 0 as they stand\)"),
          ([1, 2, 2, 1], r"count from 1 .*\(9 of 12 predictions"),
          ([-1, 0, 1, -1], r"6 of 12 labels .*0\.\.2 \(-1\)"),
          (["0", "01", "2", "1"], r"3 of 12 labels .*\(01\)"),
          (["0", "-0", "2", "1"], r"3 of 12 labels .*\(-0\)"),
          (["0", "²", "2", "1"], "need `classes`"))),
    ("null rows", ".parquet", {"logits": pa.array([[0.0, 1.0]] * 11 + [None], pa.list_(pa.float32(), 2))}, "`logits`"),
    *((f"no such columns {form}", form, {"id": None, "label": None, "image": IDS, "y": LABELS},
       "no `id` and no `label`; found (image, y, pred|pred, image, y); name them `id`, `label`, and `pred` or `logits`")
      for form in (".csv", ".npz", ".parquet")),
    *((f"no answers {form}", form, {"pred": None, "prediction": LABELS},
       "neither `pred` nor `logits`; .*found id, label, prediction") for form in (".csv", ".npz", ".parquet")),
    ("no rows", ".csv", {"id": [], "label": [], "pred": []}, "holds no sample"),
    ("unequal lengths", ".npz", {"label": LABELS[:2]}, "2 rows of `label` for 12 of `id`"),
    ("no matrix", ".npz", {"label": PLACES, "logits": np.zeros(12)}, r"shape \(N, C\)"),
    ("few classes", ".npz", {"pred": None, "logits": ROWS, "classes": ["cat"]}, "1 `classes` for 2 columns"),
    ("one twice", ".npz", {"pred": None, "logits": ROWS, "classes": ["cat"] * 2}, "names a class twice"),
    ("no such class", ".npz", {"classes": ["cat", "dog"]}, "not among its `classes`: bird"),
    ("no such class", ".csv", {"classes": ["['cat', 'dog']"] * 12}, "not among its `classes`: bird"),
    ("no such class", ".parquet", {"classes": [["cat", "dog"]] * 12}, "not among its `classes`: bird"),
    ("places", ".npz", {"pred": ["0", "1", "2"] * 4}, "it seems places in a list, where labels are names"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "change", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_row_39_what_is_no_column_of_predictions(
    tmp_path: Path, mptctl: CommandLine, form: str, change: Change, reason: str
) -> None:
    changed = {"id": IDS, "label": LABELS, "pred": LABELS} | (change if isinstance(change, dict) else {})
    columns = {name: values for name, values in changed.items() if values is not None}
    new = tmp_path / f"new{form}"
    if form == ".parquet":
        parquet.write_table(pa.table(columns), new)
    elif form == ".csv":
        pd.DataFrame(columns).to_csv(new, index=False)
    else:
        write(new, **columns)
    if isinstance(change, bytes):
        new.write_bytes(new.read_bytes() + change)
    said = refused(mptctl, 4, good(tmp_path / "old.npz"), new)
    assert re.search(rf"{re.escape(new.name)}: .*({reason})", said)
    assert len(said) < 600


def test_row_39_ids_of_300_characters_are_ids(tmp_path: Path, mptctl: CommandLine) -> None:
    """Longer than a file's name may be: they are compared, and have no picture."""
    ids = [f"{i:0300}" for i in range(12)]
    old = good(tmp_path / "old.npz", id=ids)
    new = good(tmp_path / "new.npz", id=ids, pred=["dog", *LABELS[1:]])
    done = mptctl("evaluate", old, new, "--report", tmp_path / "p.html", "--data-root", tmp_path)
    assert done.returncode == 0, done.stderr


SPELLED = [
    ("1", "1.0"), ("1", "01"), ("1", "+1"), ("1", "1."), ("10", "1e1"), ("1", "1.000000000000000000e+00"), ("1", "１"),
    ("cat", "cat "), ("cat", " cat"), ("cat", "cat\u00a0"), ("cat", "cat\u200b"), ("cat", "CAT"), ("c0", "C0"),
    ("STRASSE", "straße"), ("caf\u00e9", "cafe\u0301"), ("cat", "'cat'"), ("cat", "ｃat"),
    ("golden retriever", "golden_retriever"), ("golden retriever", "golden  retriever"),
]  # fmt: skip


@pytest.mark.parametrize(("label", "written"), SPELLED)
def test_row_40_an_answer_that_differs_from_a_label_only_in_form_is_no_wrong_one(
    tmp_path: Path, mptctl: CommandLine, label: str, written: str
) -> None:
    """It would count as wrong, and hide every flip."""
    ids, labels = np.arange(20), [label] * 10 + ["other"] * 10
    old = write(tmp_path / "old.npz", id=ids, label=labels, pred=labels)
    new = write(tmp_path / "new.npz", id=ids, label=labels, pred=[written, *labels[1:]])
    assert re.search(r"new\.npz: 1 of 20 predictions .* spelled .* for ", refused(mptctl, 4, old, new))


def _as_utf_16(rng: Rng, path: Path) -> None:
    path.write_bytes(path.read_text().encode("utf-16"))


@pytest.mark.parametrize(
    ("form", "damage", "reason"),
    [
        (".npz", flip_a_bit, ""), (".npz", encrypt, ""), (".npz", other_header, "is damaged: its header says"),
        (".npz", cut, ""), (".parquet", cut, ""), (".parquet", repeat_a_column, "`label` heads 2 columns"),
        (".csv", repeat_a_column, "`label` heads 2 columns"), (".csv", other_fields, "other than the 3 fields"),
        (".csv", _as_utf_16, "its first line holds a NUL; save the file as UTF-8"),
    ],
)  # fmt: skip
def test_row_39_42_a_file_that_is_damaged_but_can_be_opened(
    tmp_path: Path, mptctl: CommandLine, form: str, damage: Callable[[Rng, Path], None], reason: str
) -> None:
    """Checksums of each member, a row too few or too many in a header, one field more in each row or in one."""
    for seed in range(3):
        new = good(tmp_path / f"new{form}")
        if form == ".npz" and seed == 2:
            np.savez_compressed(new, id=IDS, label=LABELS, pred=LABELS)
        damage(np.random.default_rng(seed), new)
        said = refused(mptctl, 4, good(tmp_path / "old.npz"), new, "--max-nfr", "100")
        assert new.name in said and reason in said


def test_row_40_an_old_model_that_is_never_right_fails(tmp_path: Path, mptctl: CommandLine) -> None:
    wrong = ["cat" if x != "cat" else "dog" for x in LABELS]
    pair = good(tmp_path / "old.npz", pred=wrong), good(tmp_path / "new.npz")
    done = mptctl("evaluate", *pair, "--max-nfr", "99", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["gate"]["failed"]) == (3, ["old-never-right"])
    assert (report["rel_nfr"], report["lost"], report["rates"]["lost"]["ci95"]) == (None, None, None)
    assert "the old model is wrong on all 8 samples" in done.stderr


def test_row_48_no_flip_of_twenty_is_no_proof(tmp_path: Path, mptctl: CommandLine) -> None:
    ids, labels = [f"s{i}" for i in range(20)], ["cat", "dog"] * 10
    old = write(tmp_path / "old.npz", id=ids, label=labels, pred=[*labels[:18], "dog", "cat"])
    new = write(tmp_path / "new.npz", id=ids, label=labels, pred=[*labels[:19], "cat"])
    words = ("evaluate", old, new, "--max-nfr", "5", "--json")
    done = mptctl(*words, "--confidence", "0.99")
    assert done.returncode == 3
    report = json.loads(done.stdout)
    assert report["nfr"] == 0.0
    # Exact: none of twenty comes up with 2.5 %, and with 0.5 %, at these rates.
    assert report["nfr_ci95"] == pytest.approx([0, 1 - 0.025 ** (1 / 20)])
    assert report["gate"]["checks"][0]["interval"] == pytest.approx([0, 1 - 0.005 ** (1 / 20)])
    # None of two errors is a flip: of 2.5 %, 2.25 % are for that, and the old model's part makes the bound larger.
    assert report["rates"]["rel_nfr"]["ci95"][1] > 1 - 0.0225 ** (1 / 2)
    assert report["er_difference"]["ci95"][1] > report["er_difference"]["ci95"][0]
    assert mptctl(*words).returncode == 0
