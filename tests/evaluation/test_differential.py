"""Random predictions files against ten lines: the same counts, or a refusal where the file is unsound.

300 cases, or as many as MPTCTL_DIFFERENTIAL_CASES says. Every second case is sound and must be taken; the others
go through the kinds of `KINDS` in turn and must be refused.
"""

from __future__ import annotations

import json
import os
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from mptctl.errors import DataError
from mptctl.evaluation.compare import compare
from mptctl.evaluation.predictions import read_predictions

CASES = int(os.environ.get("MPTCTL_DIFFERENTIAL_CASES", "300"))
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
    old_classes = set(old.classes) if old.says or old.logits else set(old.labels)
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


# One function for each kind of damage. It gets a sound pair and returns the pair to write, or damages what was written.
Pair = tuple[Model, Model]
Rng = np.random.Generator


def respelled(spell: Callable[[str], str]) -> Callable[[Rng, Pair], Pair]:
    """Answers of one model, from one of them to all, in another spelling."""

    def change(rng: Rng, pair: Pair) -> Pair:
        able = [
            [i for i, a in enumerate(model.preds) if a in model.labels and spell(a) not in {a, *model.labels}]
            for model in pair
        ]
        which = int(rng.integers(2)) if able[0] else 1
        model, rows = pair[which], able[which]
        some = set(rng.choice(rows, int(rng.integers(1, len(rows) + 1)), replace=False).tolist())
        preds = [spell(answer) if i in some else answer for i, answer in enumerate(model.preds)]
        changed = replace(model, preds=preds, text={"pred"})
        return (changed, pair[1]) if which == 0 else (pair[0], changed)

    return change


def in_another_form(name: str) -> str:
    """Letters and their marks apart, and the first letter as wide as a Chinese one."""
    wide = chr(ord(name[0]) + 0xFEE0) if name[0].isascii() else name[0]
    return unicodedata.normalize("NFD", wide + name[1:])


def to_place(rng: Rng, pair: Pair) -> Pair:
    names = sorted({*pair[0].labels})
    return respelled(lambda answer: str(names.index(answer)) if answer in names else answer)(rng, pair)


def labels_from_1(rng: Rng, pair: Pair) -> Pair:
    one, two = (replace(m, labels=[str(int(label) + 1) for label in m.labels]) for m in pair)
    return one, two


def labels_of_minus_1(rng: Rng, pair: Pair) -> Pair:
    last = str(max(int(label) for label in pair[0].labels))
    one, two = (replace(m, labels=["-1" if label == last else label for label in m.labels]) for m in pair)
    return one, two


def old_class_respelled(rng: Rng, pair: Pair) -> Pair:
    old = pair[0]
    odd = next(name for name in old.classes if name.upper() != name)
    classes = [name.upper() if name == odd else name for name in old.classes]
    return replace(old, classes=classes, preds=[p.upper() if p == odd else p for p in old.preds]), pair[1]


def unlike_lists(rng: Rng, pair: Pair) -> Pair:
    old = pair[0]
    n, text = len(old.ids), json.dumps(old.classes)
    if old.form == ".parquet":
        lists = [old.classes] * (n - 1) + [old.classes[::-1]]
        return replace(old, raw={"classes": pa.array(lists)}), pair[1]
    cells = [
        [text] * (n - 1) + [json.dumps(old.classes[::-1])],
        [text] * (n - 1) + [""],
        ["{" + text[1:-1] + "}"] * n,
        [json.dumps({name: i for i, name in enumerate(old.classes)})] * n,
        [repr("".join(old.classes))] * n,
        [json.dumps([old.classes])] * n,
    ]
    return replace(old, raw={"classes": cells[int(rng.integers(len(cells)))]}), pair[1]


def no_labels(rng: Rng, pair: Pair) -> Pair:
    new = pair[1]
    n, key = len(new.ids), str(rng.choice(["label", "pred"]))
    numbers = np.arange(n, dtype=np.float64)
    odd = [1.5, np.inf, np.nan, 1e19, 2e19, 1e308, 2.0**53]
    kinds: list[Any] = [np.where(numbers == 1, value, numbers) for value in odd]
    kinds += [(numbers + 2048).astype("f2"), numbers > 1, numbers.astype("i8").astype("M8[s]")]
    kinds += [] if new.form == ".parquet" else [numbers * 1j, np.zeros(n, dtype=[("a", "i4")])]
    values = kinds[int(rng.integers(len(kinds)))]
    return pair[0], replace(new, raw={key: pa.array(values) if new.form == ".parquet" else values})


def null_rows(rng: Rng, pair: Pair) -> Pair:
    old = pair[0]
    n, c = len(old.ids), len(old.classes)
    rows: list[Any] = [[0.0] * c for _ in range(n)]
    rows[int(rng.integers(n))] = None
    kinds = [pa.list_(pa.float32(), c), pa.list_(pa.float32())]
    logits = pa.array(rows, type=kinds[int(rng.integers(2))])
    some = [None if i == 1 else answer for i, answer in enumerate(old.preds)]
    return replace(old, raw=[{"logits": logits}, {"pred": pa.array(some)}][int(rng.integers(2))]), pair[1]


def unmatched(rng: Rng, pair: Pair) -> Pair:
    new, kind = pair[1], int(rng.integers(4))
    ids, labels = list(new.ids), list(new.labels)
    if kind == 0:
        ids[0] = ids[1]
    elif kind == 1:
        ids[0] = "a new one"
    elif kind == 2:
        labels[0] = next(label for label in labels if label != labels[0])
    else:
        ids[0] += " "
    return pair[0], replace(new, ids=ids, labels=labels)


def mostly_unknown(rng: Rng, pair: Pair) -> Pair:
    preds = [f"strange {i}" if i <= len(pair[1].preds) // 2 else p for i, p in enumerate(pair[1].preds)]
    return pair[0], replace(pair[1], preds=preds)


def flip_a_bit(rng: Rng, path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        info = archive.infolist()[int(rng.integers(len(archive.infolist())))]
    sound = path.read_bytes()
    begin = info.header_offset + 30 + len(info.filename) + 20  # numpy writes sizes in 20 bytes of extra field
    while not is_damaged(path):  # a few bits of a compressed stream only fill its last byte, and mean nothing
        content = bytearray(sound)
        content[begin + int(rng.integers(info.compress_size))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)


def is_damaged(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        try:
            return archive.testzip() is not None
        except (EOFError, zlib.error):
            return True


def other_header(rng: Rng, path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    n = int(members["id.npy"].split(b"'shape': (")[1].split(b",")[0])
    name = str(rng.choice([name for name in members if name != "classes.npy"]))
    more = n + int(rng.choice([-1, 1]))
    members[name] = members[name].replace(b"'shape': (%d," % n, b"'shape': (%d," % more, 1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for key, content in members.items():
            archive.writestr(key, content)


def cut(rng: Rng, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(rng.integers(len(content)))])


def encrypt(rng: Rng, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    path.write_bytes(content)


def repeat_a_column(rng: Rng, path: Path) -> None:
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
        parquet.write_table(table.append_column("label", table["label"][::-1].combine_chunks()), path)
    else:
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text(
            "\n".join([f"{lines[0]},label", *(f"{line},cat" for line in lines[1:])]), encoding="utf-8"
        )


def other_fields(rng: Rng, path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    row, kind = int(rng.integers(1, len(lines))), int(rng.integers(3))
    if kind == 0:
        lines[row] += ",x"
    elif kind == 1:
        lines[row] = "x"
    else:  # in each row: the first column would become an index
        lines[1:] = [f"{i},{line}" for i, line in enumerate(lines[1:])]
    path.write_text("\n".join(lines), encoding="utf-8")


def no_text(rng: Rng, path: Path) -> None:
    content = path.read_bytes()
    at = content.index(b"\n") + 1
    odd = [b"\xff", b"\x00", b"\xed\xa0\x80"][int(rng.integers(3))]
    path.write_bytes(content[:at] + odd + content[at:])


def half_a_character(rng: Rng, pair: Pair) -> Pair:
    labels = [f"{label}\ud800" for label in pair[0].labels]
    raw = {"label": np.array(labels)}
    return replace(pair[0], raw=raw), pair[1]


@dataclass(frozen=True)
class Kind:
    """A kind of damage: what the sound pair must be like, and what changes it before or after it is written."""

    fixed: dict[str, Any]
    before: Callable[[Rng, Pair], Pair] | None = None
    after: Callable[[Rng, Path], None] | None = None


PLAIN = {"says": False, "logits": False}
KINDS = {
    "1.0 for 1": Kind({"style": "counted", **PLAIN}, respelled(lambda a: f"{a}.0")),
    "01 for 1": Kind({"style": "numbers", **PLAIN}, respelled(lambda a: f"{'-' * (a < '0')}0{a.strip('-')}")),
    "a blank": Kind({"style": "names", **PLAIN}, respelled(lambda a: f"{a} ")),
    "upper case": Kind({"style": "names", **PLAIN}, respelled(str.upper)),
    "a name with its columns": Kind({"style": "names", "says": True, "logits": False}, respelled(str.title)),
    "another Unicode form": Kind({"style": "names", **PLAIN}, respelled(in_another_form)),
    "a place for a name": Kind({"style": "names", **PLAIN}, to_place),
    "labels from 1": Kind({"style": "counted", "says": False, "logits": True}, labels_from_1),
    "labels of -1": Kind({"style": "counted", "says": False, "logits": True}, labels_of_minus_1),
    "an old class spelled otherwise": Kind({"style": "names", "says": True}, old_class_respelled),
    "unlike class lists": Kind({"says": True, "form": ".csv"}, unlike_lists),
    "unlike class lists in Parquet": Kind({"says": True, "form": ".parquet"}, unlike_lists),
    "no labels in an archive": Kind({"form": ".npz", "logits": False}, no_labels),
    "no labels in Parquet": Kind({"form": ".parquet", "logits": False}, no_labels),
    "null rows": Kind({"form": ".parquet", "says": True, "logits": True}, null_rows),
    "half a character": Kind({"form": ".npz"}, half_a_character),
    "ids or labels that do not match": Kind({}, unmatched),
    "mostly unknown answers": Kind(PLAIN, mostly_unknown),
    "a wrong checksum": Kind({"form": ".npz"}, after=flip_a_bit),
    "a header of another size": Kind({"form": ".npz"}, after=other_header),
    "cut": Kind({"form": ".npz"}, after=cut),
    "cut Parquet": Kind({"form": ".parquet"}, after=cut),
    "encrypted": Kind({"form": ".npz"}, after=encrypt),
    "a repeated column": Kind({"form": ".csv"}, after=repeat_a_column),
    "a repeated column in Parquet": Kind({"form": ".parquet"}, after=repeat_a_column),
    "other fields": Kind({"form": ".csv"}, after=other_fields),
    "no text": Kind({"form": ".csv"}, after=no_text),
}


def run(case: int, folder: Path) -> tuple[str, tuple[int, ...] | None, tuple[int, ...] | None, str]:
    """One case: its kind (empty: sound), the counts, those of the ten lines, and the refusal."""
    rng = np.random.default_rng(case)
    names = list(KINDS)
    kind = names[case // 2 % len(names)] if case % 2 else ""
    damage = KINDS.get(kind, Kind({}))
    pair = make(rng, **damage.fixed)
    counts = expected(*pair)
    if damage.before is not None:
        pair = damage.before(rng, pair)
    paths = [folder / f"{name}{model.form}" for name, model in zip(("old", "new"), pair, strict=True)]
    for model, path in zip(pair, paths, strict=True):
        write(rng, model, path)
    if damage.after is not None:
        damage.after(rng, paths[int(rng.integers(2))])
    try:
        report = compare(*(read_predictions(path) for path in paths))
    except DataError as error:
        return kind, None, counts, str(error)
    strange = sum(p == "a class without samples" for model in pair for p in model.preds)
    assert sum("no list of classes" in warning for warning in report.warnings) == sum(
        "a class without samples" in model.preds for model in pair
    ), f"case {case}: {strange} unknown answers, and {report.warnings}"
    return kind, tuple(report.counts.model_dump().values()), counts, ""


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_same_counts_as_ten_lines_or_a_refusal(tmp_path: Path) -> None:
    refused: Counter[str] = Counter()
    agreed = 0
    for case in range(CASES):
        kind, found, counts, message = run(case, tmp_path)
        if kind:
            assert found is None, f"case {case}: {kind}: taken, with {found} where {counts} is right"
            assert "\n" not in message and ("old." in message or "new." in message), f"case {case}: {message}"
            refused[kind] += 1
        else:
            assert found == counts, f"case {case}: {found} where {counts} is right; {message}"
            agreed += 1
    print(f"{agreed} sound pairs agreed, {refused.total()} unsound ones were refused: {dict(refused)}")  # noqa: T201
    assert refused.keys() == set(list(KINDS)[: CASES // 2])
