"""Rows 6, 31, 32, 44 and 47: real disks that are full, kills in the middle of writing, and shared folders."""

from __future__ import annotations

import errno
import math
import os
import random
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

# What the commands import, once for all children.
from mptctl.data.split import load_split, make_split
from mptctl.files import storage_error
from mptctl.models.checkpoint import load_checkpoint
from tests.faults.process import can_mount, run_forked, small_disk
from tests.studies.made_runs import made_seed

SMALL = ("--device", "cpu", "--set", "optim.epochs=2", "--set", "runtime.threads=1")
on_a_full_disk = pytest.mark.skipif(not can_mount(), reason="no file system of its own may be mounted here")


def full_but_for(folder: Path, free: int, kept: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """A disk over a folder on which so many bytes are free; as `small_disk`."""
    mount, after = small_disk(folder, 64_000_000, kept)

    def before() -> None:
        mount()
        with open(folder / "ballast", "wb", buffering=0) as file:
            for size in (1_000_000, 4096):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    pass
            file.truncate(file.tell() - free)

    return before, after


@on_a_full_disk
@pytest.mark.parametrize("pages", [0, 1, 3, 8, 30])
def test_row_06_a_disk_that_fills_while_a_run_begins_or_saves(runs: Path, tmp_path: Path, pages: int) -> None:
    before, after = full_but_for(runs, 4096 * pages, tmp_path / "kept")
    words = ("train-ref", "--run-root", runs, "--name", "more", *SMALL)
    done = run_forked(*words, before=before, after=after)
    assert done.returncode == 7, done.stderr
    (said,) = (line for line in done.stderr.splitlines() if line.startswith("mptctl:"))
    assert "no room" in said
    assert "MB free" in said
    assert "then go on with: mptctl train-ref" in said
    left = tmp_path / "kept" / "more"
    assert not list(left.glob(".*.part"))
    for name in ("last.pt", "best.pt"):
        if (left / name).exists():
            load_checkpoint(left / name)


@on_a_full_disk
def test_row_06_a_disk_that_fills_keeps_the_checkpoint_before(runs: Path, tmp_path: Path) -> None:
    """The run is at its first epoch's end: what it saves at the second has no room."""
    flags = (*SMALL, "--set", "runtime.checkpoint_every_steps=0")
    best, last = ((runs / "ref" / name).stat().st_size for name in ("best.pt", "last.pt"))
    # Both of the first epoch, half a third `last.pt`, and what else a run writes.
    before, after = full_but_for(runs, best + last + last // 2 + 50_000, tmp_path / "kept")
    done = run_forked("train-ref", "--run-root", runs, "--name", "more", *flags, before=before, after=after)
    assert done.returncode == 7, done.stderr
    assert "MB needed" in done.stderr
    assert load_checkpoint(tmp_path / "kept" / "more" / "last.pt").meta.global_step >= 12
    assert not list((tmp_path / "kept" / "more").glob(".*.part"))


@on_a_full_disk
@pytest.mark.parametrize("pages", [10, 60, 100])
def test_row_32_a_disk_that_fills_in_cache_and_tensorboard(runs: Path, tmp_path: Path, pages: int) -> None:
    before, after = full_but_for(runs, 4096 * pages, tmp_path / "kept")
    words = ("train-mpt", "--run-root", runs, "--name", "more", "--cache-teachers", *SMALL)
    done = run_forked(*words, "--set", "optim.epochs=40", before=before, after=after)
    assert done.returncode == 7, done.stderr
    assert "no room" in done.stderr
    for path in (tmp_path / "kept" / "more").glob("*.pt"):
        load_checkpoint(path)


@on_a_full_disk
@pytest.mark.parametrize(
    "output", [("--report", "page.html"), ("--markdown", "page.md"), ("--save-predictions", ".")]
)
def test_row_32_a_disk_that_fills_in_a_report(
    pair: tuple[Path, Path], tmp_path: Path, output: tuple[str, str]
) -> None:
    folder = tmp_path / "out"
    written = (
        "--report", folder / "page.html", "--markdown", folder / "page.md", "--save-predictions", folder,
    )  # fmt: skip
    assert run_forked("evaluate", *pair, *written).returncode == 0
    there = {path.name: path.read_bytes() for path in folder.iterdir()}
    before, after = full_but_for(folder, 0, tmp_path / "kept")
    done = run_forked("evaluate", *pair, output[0], folder / output[1], before=before, after=after)
    assert (done.returncode, done.stderr.count("\n")) == (7, 1), done.stderr
    assert "no room" in done.stderr
    assert "--resume" not in done.stderr  # which this verb has not
    assert left_of(tmp_path / "kept") == there


def left_of(folder: Path) -> dict[str, bytes]:
    """What a disk held besides what filled it."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "ballast"}


def a_pair_of_predictions(place: Path, size: int) -> tuple[list[object], tuple[str, str]]:
    """A command that writes two files into `out` of a folder, and their names."""
    ids, label = np.arange(200 + size), np.arange(200 + size) % 4
    np.savez(place / "old.npz", id=ids, label=label, pred=label)
    np.savez(place / "new.npz", id=ids, label=label, logits=np.eye(4)[(label + 1) % 4])
    words = ["evaluate", place / "old.npz", place / "new.npz", "--save-predictions", place / "out"]
    return words, ("old.npz", "new.npz")


def a_table_and_its_page(place: Path, size: int) -> tuple[list[object], tuple[str, str]]:
    """As `a_pair_of_predictions`."""
    made_seed(place / "runs" / "1", 1, {"mpt-kl": 2.0, "mpt-lm": 1.0 + size})
    outputs = ["--markdown", place / "out" / "table.md", "--report", place / "out" / "page.html"]
    return ["compare", place / "runs", *outputs], ("table.md", "page.html")


@on_a_full_disk
@pytest.mark.parametrize("command", [a_pair_of_predictions, a_table_and_its_page])
def test_row_61_a_disk_that_fills_between_the_two_files_of_a_pair_leaves_the_earlier_pair(
    command: Callable[[Path, int], tuple[list[object], tuple[str, str]]], tmp_path: Path
) -> None:
    """On a disk with room for the first file and half of the second of those that were written elsewhere before."""
    earlier, later = tmp_path / "earlier", tmp_path / "later"
    for place, size in ((earlier, 0), (later, 100)):
        (place / "out").mkdir(parents=True)
        words, names = command(place, size)
        assert run_forked(*words).returncode == 0
    there = left_of(earlier / "out")
    assert all(there[name] != (later / "out" / name).read_bytes() for name in names)
    words = [str(word).replace(str(later / "out"), str(earlier / "out")) for word in words]
    first, second = (math.ceil((later / "out" / name).stat().st_size / 4096) for name in names)
    before, after = full_but_for(earlier / "out", 4096 * (first + second // 2), tmp_path / "kept")
    done = run_forked(*words, before=before, after=after)
    assert (done.returncode, done.stderr.count("\n")) == (7, 1), done.stderr
    assert f"{names[1]}: no room" in done.stderr
    assert left_of(tmp_path / "kept") == there


@on_a_full_disk
def test_row_71_a_disk_that_fills_at_the_first_checkpoint_the_printed_command_begins_again(
    runs: Path, tmp_path: Path
) -> None:
    best = (runs / "ref" / "best.pt").stat().st_size
    before, after = full_but_for(runs, best + 60_000, tmp_path / "kept")
    words = ("train-ref", "--run-root", runs, "--name", "more", *SMALL)
    done = run_forked(*words, before=before, after=after)
    assert (done.returncode, "last.pt: no room" in done.stderr) == (7, True), done.stderr
    assert "--name more" in done.stderr.partition("then go on with: mptctl")[2]
    shutil.copytree(tmp_path / "kept" / "more", runs / "more")
    assert {path.name for path in (runs / "more").glob("*.pt")} == {"best.pt"}
    done = run_forked(*words, "--resume")
    assert done.returncode == 0, done.stderr
    assert "ended before its first checkpoint; begins anew" in done.stderr
    assert load_checkpoint(runs / "more" / "last.pt").meta.epoch == 2


def test_row_71_a_run_whose_checkpoints_are_lost_does_not_begin_anew(runs: Path) -> None:
    for name in ("last.pt", "previous.pt"):
        (runs / "ref" / name).unlink(missing_ok=True)
    log = runs / "ref" / "metrics.jsonl"
    log.write_bytes(b"".join(line for line in log.read_bytes().splitlines(True) if b'"done"' not in line))
    done = run_forked("train-ref", "--run-root", runs, "--resume", *SMALL)
    assert (done.returncode, "nothing to resume" in done.stderr) == (5, True), done.stderr


@pytest.mark.parametrize(
    ("number", "limit", "said"),
    [
        (errno.EFBIG, 5000, "no room: more than the largest file that is allowed (ulimit -f)"),
        (errno.EDQUOT, None, "no room: the quota of this user is used up"),
        (errno.ENOSPC, None, "MB free; what was there before is kept; make room"),
    ],
)
def test_row_71_what_there_is_too_little_of_is_said(
    tmp_path: Path, number: int, limit: int | None, said: str
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        error = storage_error(tmp_path / "file", OSError(number, os.strerror(number)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert said in str(error)
    assert error.full


STEPS = ("open", "os.rename", "os.remove", "os.link", "os.chmod", "os.mkdir")


def kill_at(step: int, folder: Path, later: float | None = None) -> Callable[[], None]:
    """End the process by SIGKILL at the n-th time that it opens, renames or removes below a folder, or so many
    seconds later."""
    steps = [0]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in STEPS and str(arguments[0]).startswith(str(folder)):
            steps[0] += 1
            if steps[0] == step and later is None:
                os.kill(os.getpid(), signal.SIGKILL)
            elif steps[0] == step:
                threading.Timer(later, os.kill, (os.getpid(), signal.SIGKILL)).start()

    return lambda: sys.addaudithook(hook)


def test_row_31_a_kill_while_page_and_predictions_are_written(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("evaluate", *pair, "--report", out / "page.html", "--save-predictions", out)
    run_forked(*words)
    whole = {path.name: path.stat().st_size for path in out.iterdir()}
    assert set(whole) == {"page.html", "old.npz", "new.npz"}
    for step in range(1, 40):
        shutil.rmtree(out, ignore_errors=True)
        code = run_forked(*words, before=kill_at(step, out)).returncode
        assert code in (0, -signal.SIGKILL)
        found = {path.name: path.stat().st_size for path in out.glob("[!.]*")}
        assert all(abs(size - whole[name]) < 100 for name, size in found.items()), (step, found)
        for path in out.glob("*.npz"):
            assert len(np.load(path)["id"]) == 200
        if code == 0:
            break
    assert code == 0
    assert step > 6


def test_row_47_a_split_that_is_killed_while_it_is_replaced_leaves_the_old_or_the_new_one(
    tmp_path: Path,
) -> None:
    """At each of its steps on the disk, and at any moment between them."""
    make_split("digits", run_root=tmp_path, seed=0)
    chance = random.Random(0)

    def replace(step: int, later: float | None = None) -> int:
        before = load_split(tmp_path).file.request.seed
        words = ("split", "digits", "--run-root", tmp_path, "--overwrite", "--seed", before + 1)
        code = run_forked(*words, before=kill_at(step, tmp_path, later)).returncode
        found = load_split(tmp_path).file.request.seed
        assert found in (before, before + 1)
        assert code == -signal.SIGKILL or (code, found) == (0, before + 1)
        return code

    steps = next(step for step in range(1, 99) if replace(step) == 0)
    assert steps > 6
    assert -signal.SIGKILL in {replace(1, chance.uniform(0, 0.05)) for _ in range(20)}
    replace(99)
    assert {path.name for path in tmp_path.iterdir()} == {load_split(tmp_path).file.table, "split.json"}
