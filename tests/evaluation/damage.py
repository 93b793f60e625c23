"""Kinds of damage to a pair of predictions files, each of which makes it unsound."""

from __future__ import annotations

import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet

from tests.evaluation.random_files import Model

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
}
