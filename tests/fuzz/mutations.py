"""Random damage to a file: to its bytes, its words, its structure, or the members of an archive."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import yaml
from pyarrow import parquet

# Values that programs stumble over: ends of ranges, other types, other spellings, what forges a line or a path.
ODD: list[Any] = [
    0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e308, 1e-320, float("nan"), float("inf"), True,
    False, None, "", " ", "0", "-1", "nan", "inf", "1e999", "1_000", "٣", "true", "null", "~", "a" * 300,
    "猫", "e\u0301", "\u202e", "\ud800", "\x00", "\x1b[2J", "a\nmptctl: passed", "../../outside", "/etc/passwd",
    "${HOME}", "{}", "%s%n", "'", '"', "\\", [], {}, [[]], [0], {"a": 0}, "2026-02-30", "!!python/name:os.system",
    "&a [*a]", "<script>", ",", ";", "\t",
]  # fmt: skip
SIZES = [b"\x00" * 8, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\x7f", b"\x80", b"\n", b"\x00"]


def mutate(content: bytes, name: str, rng: random.Random) -> bytes:
    """The content of a file, damaged.

    Args:
        content: of a sound file.
        name: of the file, whose ending says what it holds.
        rng: decides all.
    """
    ways = [change_bytes]
    if name.endswith((".yaml", ".json", ".jsonl", ".csv", ".txt")):
        ways += [_words, _words, _lines]
    if name.endswith((".yaml", ".json", ".jsonl")):
        ways += [_structure, _structure, _structure]
    if name.endswith((".npz", ".pt", ".pth")):
        ways += [_archive, _archive]
    if name.endswith(".parquet"):
        ways += [_columns, _columns]
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        try:
            content = rng.choice(ways)(content, rng)
        except Exception:  # what was damaged before is no tree, archive or table any more
            content = change_bytes(content, rng)
    return content


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice([1, 2, 4, 8, 64, len(data)]))
    way = rng.randrange(7)
    if way == 0 and start < len(data):
        data[start] ^= 1 << rng.randrange(8)
    elif way == 1:
        data[start:end] = rng.choice(SIZES)
    elif way == 2:
        del data[start:end]
    elif way == 3:
        data[start:start] = data[start:end]
    elif way == 4:
        data[start:start] = rng.randbytes(rng.choice([1, 4, 100]))
    elif way == 5:
        del data[start:]
    else:
        data[start:end] = rng.randbytes(end - start)
    return bytes(data)


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="surrogateescape")


def _coded(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogatepass" if "\ud800" in text else "surrogateescape")


def _spelt(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _words(content: bytes, rng: random.Random) -> bytes:
    """One word or number in the place of another, or of an odd one."""
    text = content.decode("latin-1")
    words = list(re.finditer(r"[\w.+-]+|\"[^\"]*\"", text))
    if not words:
        return content
    word = rng.choice(words)
    other = rng.choice(words)[0] if rng.random() < 0.3 else _coded(_spelt(rng.choice(ODD))).decode("latin-1")
    return (text[: word.start()] + other + text[word.end() :]).encode("latin-1")


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    way, here, there = rng.randrange(6), rng.randrange(len(lines)), rng.randrange(len(lines))
    if way == 0:
        del lines[here]
    elif way == 1:
        lines.insert(there, lines[here])
    elif way == 2:
        lines[here], lines[there] = lines[there], lines[here]
    elif way == 3:
        return rng.choice([b"\xef\xbb\xbf" + content, b"\xff\xfe" + content, content + b"\x00"])
    elif way == 4:
        return content.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b"\x0b", b"\x85"]))
    else:
        lines[here] = (
            lines[here].rstrip(b"\n") + rng.choice([b",", b" ", b"#", b": ", b'"', b"x" * 5000]) + b"\n"
        )
    return b"".join(lines)


def _structure(content: bytes, rng: random.Random) -> bytes:
    """One node of a tree in YAML or JSON replaced, left out, doubled, renamed or wrapped."""
    tree = yaml.safe_load(_text(content))
    places: list[tuple[Any, Any]] = []
    _places(tree, places)
    if not places:
        return content
    within, key = rng.choice(places)
    way = rng.randrange(6)
    if way == 0 and isinstance(within, dict):
        within[_spelt(rng.choice(ODD))] = within.pop(key)
    elif way == 1:
        del within[key]
    elif way == 2:
        within[key] = [within[key]] * rng.choice([1, 2, 50])
    elif way == 3:
        within[key] = rng.choice(places)[0] if rng.random() < 0.1 else {"a": within[key]}
    else:
        within[key] = rng.choice(ODD)
    if content.lstrip()[:1] in (b"{", b"["):
        return _coded(json.dumps(tree, ensure_ascii=rng.random() < 0.5))
    return _coded(yaml.safe_dump(tree, allow_unicode=True))


def _places(tree: Any, places: list[tuple[Any, Any]]) -> None:
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else []
    for key in keys:
        places.append((tree, key))
        _places(tree[key], places)


def _archive(content: bytes, rng: random.Random) -> bytes:
    """One member of a ZIP archive damaged, renamed, left out or doubled; the archive itself is sound."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    if not members:
        return content
    here = rng.randrange(len(members))
    name, inside = members[here]
    way = rng.randrange(8)
    if way == 0:
        del members[here]
    elif way == 1:
        members.append((name, members[rng.randrange(len(members))][1]))
    elif way == 2:
        members[here] = (rng.choice(["../x.npy", "/x.npy", "", "a" * 300, members[-1][0]]), inside)
    elif way == 3:
        members[here] = (name, _header(inside, rng))
    elif way == 4:
        members[here] = (name, _words(inside, rng))
    else:
        members[here] = (name, change_bytes(inside, rng))
    written = io.BytesIO()
    packing = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(written, "w", packing) as archive:
        for name, inside in members:
            archive.writestr(zipfile.ZipInfo(name), inside, packing)
    return written.getvalue()


def _header(array: bytes, rng: random.Random) -> bytes:
    """An array of numpy whose header says another type or shape than the data have."""
    other: Callable[[str], str] = rng.choice(
        [
            lambda text: re.sub(r"'descr': '[^']*'", f"'descr': '{rng.choice(TYPES)}'", text),
            lambda text: re.sub(r"\([^)]*\)", rng.choice(SHAPES), text),
            lambda text: text.replace("False", "True"),
        ]
    )
    start = array[:128].decode("latin-1")
    return other(start).encode("latin-1")[:128].ljust(min(128, len(array))) + array[128:]


TYPES = ["|O", "<f2", "<f8", ">i8", "|b1", "<c16", "<M8[ns]", "<U1", "|S3", "|V8", "<i1", "<U100000000"]
SHAPES = ["()", "(0,)", "(1,)", "(-1,)", "(10000000000,)", "(2, 2)", "(1, 10000000000)", "(99,)"]


def _columns(content: bytes, rng: random.Random) -> bytes:
    """One column of a Parquet file in another type, with nulls, under another name, or gone."""
    # Without threads, and from no file of Python's: a fork while another thread enters the interpreter can hang.
    table = parquet.read_table(pa.BufferReader(content), use_threads=False, pre_buffer=False)
    if not table.num_columns or not table.num_rows:
        return content
    here, rows = rng.randrange(table.num_columns), table.num_rows
    name, values = table.column_names[here], table.column(here).to_pylist()
    way = rng.randrange(6)
    if way == 0:
        table = table.remove_column(here)
    elif way == 1:
        names = [*table.column_names]
        names[here] = rng.choice(["id", "label", "pred", "", "Label", "a" * 300, *table.column_names])
        table = table.rename_columns(names)
    elif way == 2:
        table = table.append_column(rng.choice([name, "conf", "extra"]), table.column(here))
    elif way == 3:
        table = table.slice(0, rng.choice([0, 1, rows // 2]))
    elif way == 4:
        values[rng.randrange(rows)] = None
        table = table.set_column(here, name, pa.array(values, table.schema.field(here).type))
    else:
        table = table.set_column(here, name, pa.array([rng.choice(OF_TYPES)] * rows))
    written = io.BytesIO()
    parquet.write_table(table, written)
    return written.getvalue()


OF_TYPES: list[Any] = [
    1, 2**63, -1, 1.5, float("nan"), True, None, b"\xff", "x", "猫", [1, 2], {"a": 1}, [], "\x00",
]  # fmt: skip
