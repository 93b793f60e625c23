"""Pictures in every form of a source, and files of predictions, the same at each call."""

from __future__ import annotations

import csv
import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

CLASSES, SIDE = 4, 24
MTIME = 1_700_000_000  # part of a manifest's digest


def make_sources(root: Path) -> dict[str, list[str]]:
    """Write the same pictures as class folders, table, tar shards and Parquet; return words of `split` by name.

    In each form class 1's first training picture is a copy of class 0's, and one picture has a grey mode.
    """
    pictures = _pictures()
    folder = root / "photos"
    rows = []
    for (part, label, number), content in pictures.items():
        path = folder / part / f"class{label}" / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (MTIME, MTIME))
        rows.append(
            {"file": f"photos/{part}/class{label}/{number:02d}.jpg", "kind": f"class{label}", "part": part,
             "who": f"p{(label * 7 + number) % 9}", "code": f"s{len(rows):03d}"}
        )  # fmt: skip
    with (root / "table.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    _write_shards(root / "shards", pictures)
    _write_parquet(root / "parquet", pictures)
    for path in (root / "table.csv", *(root / "shards").iterdir(), *(root / "parquet").iterdir()):
        os.utime(path, (MTIME, MTIME))
    columns = [
        f"--column={role}={name}" for role, name in (("path", "file"), ("label", "kind"), ("id", "code"))
    ]
    return {
        "characters": ["characters", "--order", "random", "--seed", "3"],
        "digits": ["digits"],
        "imagefolder": [str(folder), "--on-duplicates", "quarantine", "--val-fraction", "0.25"],
        "table": [str(root / "table.csv"), *columns, "--column=split=part", "--val-fraction", "0.25"],
        "table-grouped": [
            *(str(root / "table.csv"), *columns, "--group", "who"),
            *("--test-fraction", "0.3", "--val-fraction", "0.25", "--seed", "2"),
        ],
        "shards": [str(root / "shards" / "{0..2}.tar"), "--test-fraction", "0.3", "--val-fraction", "0.25"],
    }  # fmt: skip


def _pictures() -> dict[tuple[str, int, int], bytes]:
    """JPEG files by part, label and number: smooth, of several sizes."""
    rng, found = np.random.default_rng(5), {}
    for part, count in (("train", 8), ("val", 3)):
        for label in range(CLASSES):
            for number in range(count):
                height, width = rng.integers(SIDE, 2 * SIDE, 2).tolist()
                small = rng.integers(0, 256, (5, 5, 3), dtype=np.uint8)
                picture = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
                if number == 5:
                    picture = picture.convert("L")
                stream = io.BytesIO()
                picture.save(stream, "JPEG", quality=90)
                found[part, label, number] = stream.getvalue()
    found["train", 1, 0] = found["train", 0, 0]
    return found


def _write_shards(folder: Path, pictures: dict[tuple[str, int, int], bytes]) -> None:
    """Three tar shards of pictures and ``.cls``."""
    folder.mkdir()
    for shard in range(3):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for (part, label, number), content in list(pictures.items())[shard::3]:
                for suffix, inside in ((".jpg", content), (".cls", str(label).encode())):
                    member = tarfile.TarInfo(f"{part}-{label}-{number:02d}{suffix}")
                    member.size = len(inside)
                    tar.addfile(member, io.BytesIO(inside))


def _write_parquet(folder: Path, pictures: dict[tuple[str, int, int], bytes]) -> None:
    """Two Parquet files as Hugging Face writes pictures: a struct of bytes and path, and a label."""
    folder.mkdir()
    for half in range(2):
        chosen = list(pictures.items())[half::2]
        images = [{"bytes": content, "path": f"{p}-{c}-{n}.jpg"} for (p, c, n), content in chosen]
        table = pa.table({"image": images, "label": [label for (_, label, _), _ in chosen]})
        pq.write_table(table, folder / f"train-{half:05d}-of-00002.parquet")


def make_predictions(root: Path) -> None:
    """Write old.npz, new.csv and new.parquet: 600 samples, logits in two of them, a column; and files beside them."""
    rng = np.random.default_rng(11)
    n, names = 600, np.array(["ant", "bee", "cat", "dog", "elk", "fox"])
    label = rng.integers(0, 6, n)
    ids = np.array([f"test/{row:05d}" for row in range(n)])
    signal = np.eye(6)[label]
    logits = {
        "old": rng.normal(size=(n, 4)) + 2 * signal[:, :4],
        "new": rng.normal(size=(n, 6)) + 2.5 * signal,
    }
    old, new = (values.round(4).astype(np.float32) for values in logits.values())
    np.savez(root / "old.npz", id=ids, label=names[label], logits=old, classes=names[:4])
    order = rng.permutation(n)
    np.savez(root / "new.npz", id=ids[order], label=names[label][order], logits=new[order], classes=names)
    answers = names[new.argmax(axis=1)]
    chance = np.exp(new) / np.exp(new).sum(axis=1, keepdims=True)
    country = np.array(["de", "fr", "it"])[rng.integers(0, 3, n)]
    rows = list(zip(ids, names[label], answers, chance.max(axis=1).round(5), country, strict=True))
    with (root / "new.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("id", "label", "pred", "confidence", "country"), *rows])
    table = {"id": ids, "label": names[label], "pred": answers, "country": country}
    pq.write_table(pa.table(table), root / "new.parquet")
    meta = pa.table({"id": ids, "country": country, "age": rng.integers(18, 80, n)})
    pq.write_table(meta, root / "meta.parquet")
    flipped = ids[(old.argmax(axis=1) == label) & (new.argmax(axis=1) != label) & (label < 4)]
    (root / "gate.yaml").write_text(
        "confidence: 0.9\nlimits: {max_nfr: 5, max_lost: 9, max_er_increase: 1}\n"
        "slices: [{by: {country: de}, max_nfr: 4}]\n"
        f"must_keep: {{ids: [{flipped[0]}, test/00001]}}\n"
        f"waivers: [{{id: {flipped[1]}, reason: label disputed, owner: jo, expires: 2999-01-01}}]\n"
    )
    (root / "map.yaml").write_text("ant: bee\nbee: bee\n")
