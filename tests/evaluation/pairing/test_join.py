"""The join by id: the same counts as a dictionary, as numpy and as SQL, and no partner that is missing or doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from mptctl.errors import DataError
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.reading.predictions import build_predictions, read_predictions
from tests.evaluation.files import WRITERS, write

NAMES = ["cat", "dog", "emu", "it's", "日本"]
ANSWERS = st.sampled_from(NAMES)
IDS = st.one_of(
    st.integers(-(2**62), 2**62), st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
)
TABLES = st.dictionaries(IDS.map(str), st.tuples(ANSWERS, ANSWERS, ANSWERS), min_size=1, max_size=40)
FORMS = st.sampled_from(sorted(WRITERS))


def by_dictionary(
    old: dict[str, tuple[str, str]], new: dict[str, tuple[str, str]], old_classes: set[str]
) -> tuple[tuple[int, ...], int]:
    """Flip table and changed answers of two tables: id to (label, answer)."""
    cells: Counter[tuple[bool, bool]] = Counter()
    changed = 0
    for name, (label, answer) in old.items():
        if label in old_classes:
            cells[answer == label, new[name][1] == label] += 1
            changed += answer != new[name][1]
    return tuple(cells[key] for key in ((True, True), (True, False), (False, True), (False, False))), changed


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TABLES, FORMS, FORMS, st.randoms(use_true_random=False), st.integers(1, 5))
def test_any_two_tables_count_as_a_dictionary_does(
    tmp_path: Path, rows: dict[str, tuple[str, str, str]], one: str, two: str, random: Any, known: int
) -> None:
    if {one, two} != {".csv"}:
        rows = {f"s{name}": row for name, row in rows.items()}  # a CSV has no types: `1` is a number there
    rows = {name.replace("\r", "").replace("\n", "") or "x": row for name, row in rows.items()}
    old_classes = NAMES[:known]
    labels = {row[0] for row in rows.values()}
    if not labels & set(old_classes):
        return
    order = list(rows)
    files = []
    for place, form in ((1, one), (2, two)):
        random.shuffle(order)
        file = tmp_path / f"{place}{form}"
        answers = [rows[name][place] for name in order]
        write(file, id=order, label=[rows[name][0] for name in order], pred=answers, classes=NAMES)
        files.append(read_predictions(file))
    report = compare(*files, ComparisonRequest(old_classes=old_classes))
    sides = [{name: (row[0], row[place]) for name, row in rows.items()} for place in (1, 2)]
    counts, changed = by_dictionary(*sides, set(old_classes))
    assert tuple(report.counts.model_dump().values()) == counts
    assert report.rates.churn.count == changed


@pytest.mark.parametrize("form", [".parquet", ".csv"])
def test_a_million_rows_count_as_numpy_does(tmp_path: Path, form: str) -> None:
    n, rng = 1_000_000 if form == ".parquet" else 100_000, np.random.default_rng(7)
    labels = rng.integers(0, 100, n)
    preds = [np.where(rng.random(n) < share, labels, rng.integers(0, 100, n)) for share in (0.7, 0.8)]
    files = []
    for name, answers in zip(("old", "new"), preds, strict=True):
        order = rng.permutation(n)
        columns = {"id": order, "label": labels[order], "pred": answers[order]}
        file = tmp_path / f"{name}{form}"
        if form == ".parquet":
            parquet.write_table(pa.table(columns), file)
        else:
            WRITERS[form](file, columns)
        files.append(file)
    report = compare(*(read_predictions(file) for file in files))
    old, new = (answers == labels for answers in preds)
    cells = [(old & new), (old & ~new), (~old & new), (~old & ~new)]
    assert list(report.counts.model_dump().values()) == [int(cell.sum()) for cell in cells]
    assert report.rates.churn.count == int((preds[0] != preds[1]).sum())
    places = np.flatnonzero(old & ~new)
    assert [flip.id for flip in report.worst_flips] == sorted(map(str, places.tolist()))[:24]
    pairs = Counter(zip(labels[places].tolist(), preds[1][places].tolist(), strict=True))
    most = sorted(((-n, str(label), str(answer)) for (label, answer), n in pairs.items()))
    assert [(-row.flips, row.label, row.answer) for row in report.pairs] == most[:1000]
    assert len(most) > 1000


@pytest.mark.parametrize("form", [".csv", ".parquet", ".npz"])
def test_ids_that_are_numbers_in_one_file_and_text_in_the_other(tmp_path: Path, form: str) -> None:
    """Text of equal digits is the same id, and 01 is none of 1."""
    numbers = write(tmp_path / "old.parquet", id=[1, 2], label=["a", "b"], pred=["a", "b"])
    text = write(tmp_path / f"new{form}", id=["2", "1"], label=["b", "a"], pred=["b", "b"])
    report = compare(read_predictions(numbers), read_predictions(text))
    assert [flip.id for flip in report.worst_flips] == ["1"]
    write(text, id=["01", "2"], label=["a", "b"], pred=["a", "b"])
    with pytest.raises(DataError, match=r"lacks 1 of its ids \(1\) and has 1 ids more \(01\)"):
        compare(read_predictions(numbers), read_predictions(text))


# Ids at the ends of int64, at the end of uint64, and of a length in between.
LONG = [[2**63 - 1, -(2**63), 5], [2**64 - 1, 2**63, 5], [1234567890123456789, 10**18, 5]]


@pytest.mark.parametrize("ids", LONG)
@pytest.mark.parametrize("one", sorted(WRITERS))
@pytest.mark.parametrize("two", sorted(WRITERS))
def test_integers_of_any_type_match_in_all_forms(tmp_path: Path, ids: list[int], one: str, two: str) -> None:
    kind = np.uint64 if max(ids) >= 2**63 else np.int64
    files = [
        write(tmp_path / f"old{one}", id=np.array(ids, kind), label=["a", "b", "a"], pred=["a", "b", "b"]),
        write(tmp_path / f"new{two}", id=np.array(ids, kind), label=["a", "b", "a"], pred=["b", "b", "a"]),
    ]
    report = compare(*map(read_predictions, files))
    assert list(report.counts.model_dump().values()) == [1, 1, 1, 0]
    assert [flip.id for flip in report.worst_flips] == [str(ids[0])]


def test_parts_of_which_one_has_ids_beyond_63_bits_in_their_type(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new.parquet"
    old.mkdir()
    for part, kind, ids in (("a", np.int64, [1, 2]), ("b", np.uint64, [3])):
        write(old / f"{part}.parquet", id=np.array(ids, kind), label=["a"] * len(ids), pred=["a"] * len(ids))
    write(new, id=[3, 2, 1], label=["a"] * 3, pred=["b", "a", "a"])
    assert [flip.id for flip in compare(*map(read_predictions, (old, new))).worst_flips] == ["3"]


@pytest.mark.parametrize("ids", [[1, 2], ["1", "2"]])
def test_integers_of_a_csv_with_logits_match_integers_and_text(tmp_path: Path, ids: list[Any]) -> None:
    scores = {"logits": [[1.0, 0.0], [0.0, 1.0]], "classes": ["a", "b"]}
    table = write(tmp_path / "old.csv", id=[1, 2], label=["a", "b"], **scores)
    other = write(tmp_path / "new.npz", id=ids, label=["a", "b"], pred=["a", "a"])
    assert compare(read_predictions(table), read_predictions(other)).counts.negative_flips == 1


@pytest.mark.parametrize(("where", "named"), [("all", r"2 ids .* \(0, 7\)"), ("middle", r"1 ids .* \(7\)")])
def test_one_id_in_very_many_rows_is_refused_before_it_is_joined(
    tmp_path: Path, where: str, named: str
) -> None:
    n = 200_000
    ids = np.arange(n) if where == "middle" else np.zeros(n, dtype=np.int64)
    ids[50_000:150_000] = 7
    for name in ("old", "new"):
        parquet.write_table(
            pa.table({"id": ids, "label": ids % 2, "pred": ids % 2}), tmp_path / f"{name}.parquet"
        )
    with pytest.raises(DataError, match=rf"old\.parquet: {named}"):
        compare(*(read_predictions(tmp_path / f"{name}.parquet") for name in ("old", "new")))


def test_the_first_of_many_chosen_samples_are_found_in_the_order_of_their_ids_as_text(tmp_path: Path) -> None:
    n, rng = 300_000, np.random.default_rng(0)
    ids = rng.permutation(n)
    file = write(tmp_path / "m.parquet", id=ids, label=ids % 3, pred=ids % 3)
    chosen = np.flatnonzero(rng.random(n) < 0.2)
    wanted = sorted((str(ids[number]), int(number)) for number in chosen)
    for model in (read_predictions(file), build_predictions("m", ids, ids % 3, ids % 3)):
        pairing = pair({"old": model, "new": model})
        assert list(pairing.by_id(chosen, 50).items()) == wanted[:50]
        assert list(pairing.by_id(chosen).items()) == wanted
    # Samples with logits have other numbers.
    scored = build_predictions("m", ids, ids % 3, logits=np.eye(3, dtype=np.float32)[ids % 3])
    pairing = pair({"old": scored, "new": scored})
    assert list(pairing.by_id(chosen)) == sorted(pairing.by_id(chosen))
    assert list(pairing.by_id(chosen, 50)) == list(pairing.by_id(chosen))[:50]
