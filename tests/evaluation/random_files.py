"""Random pairs of sound predictions files: forms, types, orders and class lists, for the differential test."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

NAMES = ["cat", "golden retriever", "caf\u00e9", "日本", "n01440764", "NA", "b-c", "Übergröße", "x,y", 'q"t']
LETTERS = ["A", "a", "B", "b", "C", "c", "é", "É"]  # case alone makes the class: the lists say so
NUMBERS = ["-1", "7", "12", "300", "2047", "3", "100", "44"]


@dataclass
class Model:
    """One model's file before it is written; `form` is what holds it, `text` columns that must be text."""

    ids: list[str]
    labels: list[str]
    preds: list[str]
    classes: list[str]
    says: bool  # whether `classes` is written
    logits: bool
    form: str
    text: set[str] = field(default_factory=set)
    raw: dict[str, Any] = field(default_factory=dict)  # columns to write as they are


def expected(old: Model, new: Model) -> tuple[int, int, int, int]:
    """The ten lines: (both right, negative flips, positive flips, both wrong) over the old classes."""
    answers = dict(zip(new.ids, new.preds, strict=True))
    old_classes = set(old.classes) if old.says or old.logits else set(old.preds)
    cells: Counter[tuple[bool, bool]] = Counter()
    for name, label, answer in zip(old.ids, old.labels, old.preds, strict=True):
        if label in old_classes:
            cells[answer == label, answers[name] == label] += 1
    return cells[True, True], cells[True, False], cells[False, True], cells[False, False]


def make(rng: np.random.Generator, **fixed: Any) -> tuple[Model, Model]:
    """A sound pair of files. fixed: `style` of the labels, `form`, `says` and `logits` of both models."""
    style = fixed.get("style") or str(rng.choice(["names", "letters", "numbers", "counted"]))
    size = int(rng.integers(3, 9))
    pool = {"names": NAMES, "letters": LETTERS, "numbers": NUMBERS, "counted": [str(i) for i in range(size)]}[
        style
    ]
    classes = pool if style == "counted" else rng.permutation(pool).tolist()[:size]
    known = classes[: int(rng.integers(2, len(classes) + 1))]
    n = int(rng.integers(12, 40))
    ids = [f"{i}" for i in range(n)] if rng.random() < 0.3 else [f"test/ü{i:04d}.png" for i in range(n)]
    # Every class is tested, so that every answer is known without a class list too.
    labels = [*classes, *rng.choice(classes, n - len(classes)).tolist()]
    models = []
    for mine in (known, classes):
        logits = fixed.get("logits", bool(rng.random() < 0.5))
        says = (
            fixed.get("says", bool(rng.random() < 0.5))
            or (logits and style != "counted")
            or style == "letters"
        )
        preds = [label if label in mine and rng.random() < 0.7 else str(rng.choice(mine)) for label in labels]
        if not (says or logits) and rng.random() < 0.3:
            preds[int(rng.integers(n))] = "a class without samples"
        order = rng.permutation(n)
        columns = [[column[i] for i in order] for column in (ids, labels, preds)]
        shuffled = rng.permutation(mine).tolist() if says else list(mine)
        form = fixed.get("form") or str(rng.choice([".npz", ".csv", ".parquet"]))
        models.append(Model(*columns, shuffled, says, logits, form))
    return models[0], models[1]


def typed(rng: np.random.Generator, values: list[str], form: str, text: bool) -> Any:
    """The same values in a random type that holds them exactly."""
    if form == ".csv":
        return values
    whole = all(value.removeprefix("-").isascii() and value.removeprefix("-").isdigit() for value in values)
    if whole and not text and rng.random() < 0.7:
        numbers = np.array([int(value) for value in values])
        kinds = ["i2", "i4", "i8", "f2", "f4", "f8"] + (["u2", "u8"] if numbers.min() >= 0 else [])
        array = numbers.astype(rng.choice(kinds))
        return array if form == ".npz" else pa.array(array)
    if form == ".npz":
        encoded = [value.encode() for value in values]
        return np.array(encoded if rng.random() < 0.3 else values)
    arrow = pa.array(values, type=[pa.string(), pa.large_string(), pa.binary()][int(rng.integers(3))])
    return arrow.dictionary_encode() if rng.random() < 0.3 and arrow.type != pa.binary() else arrow


def write(rng: np.random.Generator, model: Model, path: Path) -> None:
    """One model's file, in a random order of columns."""
    n, c = len(model.ids), len(model.classes)
    columns: dict[str, Any] = {}
    for key, values in (("id", model.ids), ("label", model.labels), ("pred", model.preds)):
        columns[key] = typed(rng, values, model.form, key in model.text or key == "id")
    if model.logits:
        if rng.random() < 0.5 and "pred" not in model.raw:
            del columns["pred"]
        logits = rng.normal(size=(n, c)).astype(rng.choice(["f2", "f4", "f8"]))
        logits[np.arange(n), [model.classes.index(answer) for answer in model.preds]] = 20
        columns["logits"] = logits
    if model.says:
        columns["classes"] = typed(rng, model.classes, model.form, "classes" in model.text)
    if model.form == ".csv":
        if model.logits:
            columns["logits"] = [json.dumps(row) for row in columns["logits"].tolist()]
        if model.says:
            columns["classes"] = [json.dumps(model.classes) if rng.random() < 0.5 else str(model.classes)] * n
    elif model.form == ".parquet":
        if model.logits:
            kind = pa.from_numpy_dtype(columns["logits"].dtype)
            kinds = [pa.list_(kind), pa.list_(kind, c), pa.large_list(kind)]
            columns["logits"] = pa.array(list(columns["logits"]), type=kinds[int(rng.integers(3))])
        if model.says:
            items = columns["classes"]
            items = items.dictionary_decode() if pa.types.is_dictionary(items.type) else items
            columns["classes"] = pa.array([items.to_pylist()] * n, type=pa.list_(items.type))
    columns |= model.raw
    names = rng.permutation(list(columns)).tolist()
    if model.form == ".npz":
        (np.savez_compressed if rng.random() < 0.3 else np.savez)(
            path, **{name: columns[name] for name in names}
        )
    elif model.form == ".parquet":
        table = pa.table({name: columns[name] for name in names})
        parquet.write_table(table, path, row_group_size=int(rng.integers(3, 50)))
    else:
        rows = [names, *zip(*(columns[name] for name in names), strict=True)]
        path.write_text("\n".join(",".join(quoted(v) for v in row) for row in rows) + "\n", encoding="utf-8")


def quoted(value: object) -> str:
    text = str(value).replace('"', '""')
    return f'"{text}"' if any(c in text for c in ',"\n') else text
