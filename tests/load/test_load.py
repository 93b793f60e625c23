"""Much at once: commands in one run root, runs below it, files in a split, flips on a page.

`make load` takes the sizes that are promised and prints what they cost; `make test` takes small ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb
import numpy as np
import pytest

from mptctl.data.split import load_split
from tests.common import command, environment, smooth_picture
from tests.forked import mptctl_process
from tests.soak.jobs import two_models, weights

FULL = bool(os.environ.get("MPTCTL_LOAD"))
RUNS = 200 if FULL else 20
FILES = 1_281_167 if FULL else 2_000  # training pictures of ImageNet
FLIPS = 100_000 if FULL else 2_000
ROWS = 10_000_000 if FULL else 5_000  # of each file of predictions
# ext4 takes 65,000 names for one file.
NAMES_A_FILE = 60_000


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a figure, also where output is captured."""

    def show(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}")

    return show


def measured(folder: Path, *words: str | Path) -> tuple[str, float, float]:
    """Standard output, seconds and largest memory in GB of a command that ends well."""
    began, out, peak = time.monotonic(), folder / "printed", 0
    if not FULL:  # what it costs is of no interest
        return mptctl_process(*words).stdout, 0.0, 0.0
    with out.open("w") as stream:
        process = subprocess.Popen(command(*words), stdout=stream, env=environment())
    while process.poll() is None:
        # What the system says at the end counts this process's memory too, from which that one was forked.
        with suppress(OSError):
            said = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(
                peak, *(int(line.split()[1]) for line in said.splitlines() if line.startswith("VmHWM")), 0
            )
        time.sleep(0.02)
    assert process.returncode == 0
    return out.read_text(), time.monotonic() - began, peak * 1024 / 1e9


@pytest.mark.skipif(not FULL, reason="five commands at once take minutes; make load")
def test_five_commands_at_once_in_one_run_root_end_as_one_by_one(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    two_models(alone)
    shutil.copytree(alone, together)
    how = ["--set", "optim.epochs=3", "--set", "runtime.threads=1", "--device", "cpu"]
    jobs = {
        "mpt-kl": ["train-mpt", "--distance", "kl", "--k", "1.5", "--cache-teachers", *how],
        "pct-kl": ["train-baseline", "pct-kl", "--cache-teachers", *how],
        "tune": ["tune", "--k", "0,2", "--max-er-increase", "90", "--set", "optim.epochs=2", "--json"],
        "first": ["evaluate", "old", "ref", "--json", "--device", "cpu"],
        "second": ["evaluate", "old", "ref", "--json", "--device", "cpu", "--report", "page.html"],
    }
    began = time.monotonic()
    printed = {name: _end(_start(words, alone)) for name, words in jobs.items()}
    one_by_one = time.monotonic() - began
    began = time.monotonic()
    started = {name: _start(words, together) for name, words in jobs.items()}
    printed_together = {name: _end(process) for name, process in started.items()}
    at_once = time.monotonic() - began
    for name in ("first", "second"):
        assert json.loads(printed[name]) == json.loads(printed_together[name])
    trained = [f"runs/{name}" for name in ("mpt-kl", "pct-kl", "tune/trials/kl-k0", "tune/trials/kl-k2")]
    assert weights(*(alone / name for name in trained)) == weights(*(together / name for name in trained))
    assert (alone / "page.html").stat().st_size == (together / "page.html").stat().st_size
    tell(f"five commands in one run root: {one_by_one:.0f} s one by one, {at_once:.0f} s at once")


def test_many_runs_below_one_root(tmp_path: Path, tell: Callable[[str], None]) -> None:
    two_models(tmp_path)
    root = tmp_path / "runs"
    for number in range(RUNS - 2):
        shutil.copytree(root / "ref", root / f"new-{number}", copy_function=os.link)
    listed, seconds, memory = measured(tmp_path, "runs", "--run-root", root, "--json")
    found = json.loads(listed)["runs"]
    assert len(found) == RUNS
    assert {run["state"] for run in found} == {"finished"}
    tell(f"runs over {RUNS} runs: {seconds:.1f} s, {memory:.2f} GB")
    printed, seconds, memory = measured(tmp_path, "evaluate", "old", "new-3", "--run-root", root, "--json")
    report = json.loads(printed)
    assert sum(report["counts"].values()) == report["n_old"] > 0
    tell(f"evaluate among {RUNS} runs: {seconds:.1f} s, {memory:.2f} GB")


def test_a_split_of_as_many_files_as_imagenet(tmp_path: Path, tell: Callable[[str], None]) -> None:
    folder, root = tmp_path / "pictures", tmp_path / "runs"
    _many_files(folder)
    _, seconds, memory = measured(tmp_path, "split", "imagefolder", "--data-root", folder, "--run-root", root)
    tell(f"split of {FILES:,} files: {seconds:.0f} s, {memory:.2f} GB")
    began = time.monotonic()
    split = load_split(root)
    tell(f"the split is read again in {time.monotonic() - began:.2f} s")
    train, val, test = (split.indices(part) for part in ("train", "val", "test"))
    assert len(train) + len(val) == FILES
    assert len(test) == 1000
    assert split.ids(train[:1])[0].startswith("train/")
    assert len(set(split.ids(np.concatenate([train, val, test])).tolist())) == FILES + 1000
    sizes = ["--set", "data.image_size=32", "--set", "model.stem=small", "--set", "runtime.device=cpu"]
    _, seconds, memory = measured(
        tmp_path, "train-old", "--run-root", root, "--recipe", "imagenet", "--dry-run", *sizes
    )
    tell(f"train-old --dry-run on it: {seconds:.1f} s, {memory:.2f} GB")


def test_a_page_of_many_flips(tmp_path: Path, tell: Callable[[str], None]) -> None:
    rng = np.random.default_rng(0)
    samples = 10 * FLIPS
    labels = rng.integers(0, 100, samples)
    answers = labels.copy()
    flipped = rng.choice(samples, FLIPS, replace=False)
    answers[flipped] = (labels[flipped] + rng.integers(1, 100, FLIPS)) % 100
    ids, classes = np.array([f"test/{i:07d}" for i in range(samples)]), np.arange(100)
    np.savez(tmp_path / "old.npz", id=ids, label=labels, pred=labels, classes=classes)
    np.savez(tmp_path / "new.npz", id=ids, label=labels, pred=answers, classes=classes)
    page = tmp_path / "page.html"
    printed, seconds, memory = measured(
        tmp_path, "evaluate", tmp_path / "old.npz", tmp_path / "new.npz", "--json", "--report", page
    )
    assert json.loads(printed)["counts"]["negative_flips"] == FLIPS
    text = page.read_text(encoding="utf-8")
    assert f"{FLIPS:,}" in text
    assert page.stat().st_size < 20e6
    size = page.stat().st_size / 1e6
    tell(f"a page of {FLIPS:,} flips: {size:.1f} MB in {seconds:.1f} s, {memory:.2f} GB")


def test_predictions_of_many_rows(tmp_path: Path, tell: Callable[[str], None]) -> None:
    """76 and 80 % right of 1,000 classes, in unlike orders; counted as SQL counts them, beside its bare join."""
    old, new = (str(tmp_path / f"{name}.parquet") for name in ("old", "new"))
    answer = "CASE WHEN (h // {a}) % 100 < {right} THEN h % 1000 ELSE (h + 1 + (h // {b}) % 10) % 1000 END"
    for path, order, pred in (
        (old, "i", answer.format(a=1_000, right=76, b=10**9)),
        (new, f"(i * 1000000007 + 13) % {ROWS}", answer.format(a=100_000, right=80, b=10**11)),
    ):
        ids = f"SELECT {order} AS k FROM range({ROWS}) AS t(i)"
        duckdb.execute(
            f"COPY (SELECT printf('test/%09d', k) AS id, 'n' || h % 1000 AS label, 'n' || {pred} AS pred "
            f"FROM (SELECT k, (hash(k) // 2)::BIGINT AS h FROM ({ids}))) TO '{path}'"
        )
    join = f"FROM '{old}' AS o JOIN '{new}' AS n USING (id)"
    flips = "count(*) FILTER (o.pred = o.label AND n.pred <> o.label)"
    (wanted,) = duckdb.execute(f"SELECT {flips}, count(*) FILTER (o.pred <> n.pred) {join}").fetchall()
    began = time.monotonic()
    duckdb.execute(f"SELECT count(*) {join}").fetchall()
    tell(f"bare join of {ROWS:,} rows: {time.monotonic() - began:.1f} s")
    found = []
    for words in (("evaluate", old, new, "--old-classes", "all"), ("disagree", old, new, "--draw", "1000")):
        printed, seconds, memory = measured(tmp_path, *words, "--memory-limit", "2GB", "--json")
        report = json.loads(printed)
        found.append(report["counts"]["negative_flips"] if "counts" in report else report["differ"]["count"])
        tell(f"{words[0]} of {ROWS:,} rows: {seconds:.1f} s, {memory:.2f} GB")
    assert tuple(found) == wanted


def _start(words: list[str], root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(), cwd=root,
    )  # fmt: skip


def _end(process: subprocess.Popen[str]) -> str:
    printed, said = process.communicate(timeout=1200)
    assert process.returncode == 0, said
    return printed


def _many_files(folder: Path) -> None:
    """Names of small pictures, many for one file: as much to look at, and little to store."""
    source = folder.with_name("source")
    source.mkdir()
    made = 0
    for part, count in (("train", FILES), ("val", 1000)):
        for number in range(count):
            if made % NAMES_A_FILE == 0:
                one = source / f"{made}.jpg"
                smooth_picture(32, 32, made).save(one)
            where = folder / part / f"class{number % 1000:04d}"
            if number < 1000:
                where.mkdir(parents=True, exist_ok=True)
            os.link(one, where / f"{number}.jpg")
            made += 1
