"""Rows 16, 28 and 43: small files that ask for much memory, and tables that are larger than memory."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from mptctl.data.verify import MAX_PIXELS
from tests.common import CommandLine
from tests.data.test_verify import giant
from tests.faults.process import memory_limit, run_forked

LIMIT = 1_000_000_000  # bytes that a command may take beside what the tests themselves hold


def bomb(path: Path, method: int, rows: int) -> Path:
    """An archive whose ids are that many zeros, written piece by piece."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, n in (("id", rows), ("label", 1), ("pred", 1)):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(
                    member, {"descr": "<i8", "fortran_order": False, "shape": (n,)}
                )
                block = bytes(min(8 * n, 8_000_000))
                for _ in range(0, 8 * n, 8_000_000):
                    member.write(block)
    return path


def test_row_43_an_archive_of_compressed_zeros(tmp_path: Path) -> None:
    file = bomb(tmp_path / "old.npz", zipfile.ZIP_DEFLATED, 20_000_000)
    done = run_forked("evaluate", file, file, before=memory_limit(LIMIT // 3))
    assert done.returncode == 7, done.stderr
    assert "old.npz: `id` needs 480 MB of memory" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_row_43_an_archive_that_is_compressed_harder_than_numpys(tmp_path: Path, method: int) -> None:
    """To read its header, the library would unpack all of it."""
    file = bomb(tmp_path / "old.npz", method, 10_000_000)
    assert file.stat().st_size < 50_000
    done = run_forked("evaluate", file, file, before=memory_limit(LIMIT // 20))
    assert done.returncode == 4, done.stderr
    assert "compressed in a way that numpy does not write" in done.stderr


@pytest.mark.parametrize("column", ["label", "logits"])
def test_row_43_a_parquet_file_of_very_many_rows(tmp_path: Path, column: str) -> None:
    rows = 10_000_000
    same: dict[str, Any] = {
        "id": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["a"])),
        "label": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["cat"])),
    }
    same["pred"] = same["label"]
    if column == "logits":
        same["logits"] = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows, np.float16)), 1)
    parquet.write_table(pa.table(same), tmp_path / "old.parquet", compression="zstd")
    assert (tmp_path / "old.parquet").stat().st_size < 1_000_000
    done = run_forked(
        "evaluate", tmp_path / "old.parquet", tmp_path / "old.parquet", before=memory_limit(LIMIT)
    )
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    assert "1 ids stand there more than once (a)" in done.stderr


@pytest.mark.parametrize("numbers", [10**9, 10**13])
def test_row_43_a_tensor_that_says_of_one_number_that_it_is_many(
    tmp_path: Path, runs: Path, numbers: int
) -> None:
    (tmp_path / "names.txt").write_text("0\n1\n")
    wide = torch.zeros(1).expand(numbers)
    torch.save({"fc.weight": wide}, tmp_path / "w.pt")
    assert (tmp_path / "w.pt").stat().st_size < 3_000
    words = ("--arch", "resnet18", "--class-names", tmp_path / "names.txt", "--run-root", runs, "--name", "x")
    done = run_forked("import", tmp_path / "w.pt", *words, before=memory_limit(LIMIT))
    assert (done.returncode, done.stderr.count("\n")) == (5, 1), done.stderr
    content = torch.load(runs / "new" / "best.pt", weights_only=True)
    content["model"]["fc.weight"] = wide
    torch.save(content, runs / "new" / "best.pt")
    done = run_forked("evaluate", "old", "new", "--run-root", runs, before=memory_limit(LIMIT))
    assert (done.returncode, done.stderr.count("\n")) == (5, 1), done.stderr
    assert "best.pt: holds a tensor that stores no number for each of its places" in done.stderr


def test_row_43_a_picture_of_13000_by_13000_in_the_gallery(tmp_path: Path) -> None:
    Image.new("1", (13_000, 13_000)).save(tmp_path / "large.png")
    Image.new("1", (20, 20)).save(tmp_path / "small.png")
    columns = {"id": ["large.png", "small.png", "c"], "label": [1, 1, 0]}
    np.savez(tmp_path / "old.npz", **columns, pred=[1, 1, 0])
    np.savez(tmp_path / "new.npz", **columns, pred=[0, 0, 0])
    page = tmp_path / "page.html"
    words = (
        "evaluate", tmp_path / "old.npz", tmp_path / "new.npz", "--report", page, "--data-root", tmp_path,
    )  # fmt: skip
    done = run_forked(*words, before=memory_limit(LIMIT))
    assert done.returncode == 0, done.stderr
    assert page.read_text(encoding="utf-8").count("data:image/png") == 1


def test_row_16_a_picture_of_20000_by_20000_is_refused_on_its_header(
    own_folder: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    (own_folder / "train" / "class1" / "large.jpg").write_bytes(giant())
    done = mptctl("split", own_folder, "--run-root", tmp_path / "runs")
    assert done.returncode == 4, done.stderr
    assert f"large.jpg: more than {MAX_PIXELS} pixels" in done.stderr


@pytest.mark.slow
def test_row_28_three_million_rows_in_little_memory(tmp_path: Path) -> None:
    for name, shift in (("old", 0), ("new", 1)):
        duckdb.execute(
            f"COPY (SELECT 'test/' || hash(i) AS id, i % 9 AS label, (i + {shift} * (i % 100 = 0)::INT) % 9 AS pred "
            f"FROM range(3_000_000) t(i)) TO '{tmp_path / name}.parquet'"
        )
    words = ("evaluate", tmp_path / "old.parquet", tmp_path / "new.parquet", "--json")
    done = run_forked(*words, "--memory-limit", "200MB", before=memory_limit(2 * LIMIT))
    assert done.returncode == 0, done.stderr
    assert '"negative_flips":30000' in done.stdout
    # The same as archives, which are read as a whole: they say what they need.
    n = 3_000_000
    for name in ("old", "new"):
        np.savez(
            tmp_path / f"{name}.npz", id=np.arange(n).astype("U40"), label=np.zeros(n, int),
            pred=np.zeros(n, int),
        )  # fmt: skip
    done = run_forked("evaluate", tmp_path / "old.npz", tmp_path / "new.npz", before=memory_limit(LIMIT))
    assert (done.returncode, done.stderr.count("\n")) == (7, 1), done.stderr
    assert "of memory where" in done.stderr
