"""A run folder: its lock, its log, and whether its run has ended."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mptctl.data.split import Split
from mptctl.errors import CheckpointError, StorageError
from mptctl.models.checkpoint import load_checkpoint, save_checkpoint
from mptctl.models.finished import Unfinished, describe_unfinished
from mptctl.models.lock import is_free
from mptctl.models.metrics_log import (
    MetricsLine,
    append_metrics,
    read_metrics,
    truncate_metrics,
)
from mptctl.models.ownership import LOCK
from mptctl.models.run_folder import RunDir
from mptctl.training.request import RunRequest
from tests.common import Train, short_recipe, train_until_killed

LOOKERS, STARTS = 3, 100


def test_a_run_starts_while_others_look_whether_its_folder_is_free(tmp_path: Path) -> None:
    """`runs`, `split --overwrite` and studies look so, at any moment."""
    folder, ended = tmp_path / "run", threading.Event()
    folder.mkdir()
    (folder / LOCK).touch()  # as a killed run leaves it

    def look() -> None:
        while not ended.is_set():
            is_free(folder)

    lookers = [threading.Thread(target=look) for _ in range(LOOKERS)]
    for each in lookers:
        each.start()
    try:
        for _ in range(STARTS):
            with RunDir(folder).locked("refuse"):
                pass
            (folder / LOCK).touch()
    finally:
        ended.set()
        for each in lookers:
            each.join()


def test_a_run_waits_for_one_that_looks(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    looking = os.open(tmp_path / LOCK, os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.3, os.close, [looking]).start()
    began = time.monotonic()
    with RunDir(tmp_path).locked("refuse"):
        assert time.monotonic() - began > 0.2
        assert not is_free(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A run of two epochs of two steps each."""
    path = tmp_path / "metrics.jsonl"
    for epoch, step in ((1, 2), (2, 4)):
        for event in ("step", "epoch", "checkpoint"):
            append_metrics(path, MetricsLine.model_validate({"event": event, "epoch": epoch, "step": step}))
    append_metrics(path, MetricsLine.model_validate({"event": "done", "epoch": 2, "step": 4}))
    return path


def written(path: Path) -> list[tuple[str, int]]:
    return [(line.event, line.step) for line in read_metrics(path)]


def test_a_line_that_a_kill_cut_short_is_left_out(log: Path) -> None:
    whole = written(log)
    with open(log, "a", encoding="utf-8") as file:
        file.write('{"event":"step","epo')
    assert written(log) == whole
    assert written(log.with_name("none.jsonl")) == []


def test_a_line_that_cannot_be_read_is_named_and_not_deleted(log: Path) -> None:
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([lines[0], '{"event":"epoch","epoch":1,"step":2,"new":1}\n', *lines[2:]]))
    before = log.read_bytes()
    for read in (written, lambda path: truncate_metrics(path, 2, validated=True)):
        with pytest.raises(
            CheckpointError, match=r"metrics\.jsonl: line 2 cannot be read; put back the file"
        ):
            read(log)
    assert log.read_bytes() == before


@pytest.mark.parametrize("content", ["", "{}\n", '{"event":"st'])
def test_a_run_of_whose_log_nothing_can_be_read_is_not_finished(log: Path, content: str) -> None:
    run = RunDir(log.parent)
    run.best.write_bytes(b"weights")
    assert run.is_finished()
    log.write_text(content)
    if content == "{}\n":
        with pytest.raises(CheckpointError, match="line 1 cannot be read"):
            run.is_finished()
        return
    assert not run.is_finished()
    log.unlink()
    assert run.is_finished()  # an imported model has no log


def test_a_file_that_is_no_text_is_named(log: Path) -> None:
    with open(log, "ab") as file:
        file.write(b'{"event":"st\xe0p"}\n')
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl: cannot be read: it is no UTF-8 text"):
        written(log)


@pytest.mark.parametrize("validated", [True, False])
def test_what_is_done_again_goes(log: Path, validated: bool) -> None:
    truncate_metrics(log, 2, validated=validated)
    assert written(log) == [("step", 2), *([("epoch", 2)] if validated else []), ("checkpoint", 2)]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="none"):
        append_metrics(tmp_path / "none" / "metrics.jsonl", MetricsLine(event="done", epoch=1, step=1))


def state(path: Path) -> Any:
    """Unfinished, or None."""
    return describe_unfinished(path, load_checkpoint(path).meta)


def test_a_killed_run_is_unfinished_wherever_it_is_named_from_until_it_is_resumed(
    run: Train, digits: Split, tmp_path: Path
) -> None:
    folder = digits.run_root / "killed"
    train_until_killed(RunRequest(short_recipe(), digits, folder), "checkpoint", 12)
    for name in ("best.pt", "last.pt"):
        assert state(folder / name) == Unfinished(
            True, f"{folder / name}: its run is not finished (epoch 1 of 2, stopped at step 12 of 24)"
        )
    (tmp_path / "link.pt").symlink_to(folder / "best.pt")
    assert state(tmp_path / "link.pt").certain
    alone = Path(shutil.copy(folder / "best.pt", tmp_path / "alone.pt"))
    assert not state(alone).certain
    assert "saved after epoch 1 of 2" in state(alone).sentence

    old, _ = run(short_recipe(**{"runtime.seed": 6}), "old", only_old_classes=True)
    teachers = {"old": old.run.best, "refs": (folder / "best.pt",)}
    recipe = short_recipe(method="mpt-kl", **{"runtime.seed": 5})
    _, log = run(recipe, "taught", **teachers)
    told = [note for note in log.notes if note.startswith("warning")]
    assert len(told) == 1
    assert "killed/best.pt: its run is not finished (epoch 1 of 2, stopped at step 12 of 24)" in told[0]

    run(short_recipe(), "killed", resume=True)
    assert [state(folder / f"{name}.pt") for name in ("best", "last", "previous")] == [None] * 3
    _, log = run(recipe, "taught again", **teachers)
    assert not any(note.startswith("warning") for note in log.notes)


def test_a_run_that_ends_by_its_steps_is_finished(run: Train, tmp_path: Path) -> None:
    done, _ = run(short_recipe("optim.max_steps=5"))
    alone = Path(shutil.copy(done.run.last, tmp_path / "alone.pt"))
    assert (state(done.run.best), state(alone)) == (None, None)


def test_a_checkpoint_alone_or_a_stranger_in_a_run_says_what_it_can(run: Train, tmp_path: Path) -> None:
    done, _ = run(short_recipe())
    known = load_checkpoint(done.run.last)

    def saved(**changes: object) -> Any:
        path = tmp_path / "alone.pt"
        save_checkpoint(path, known.meta.model_copy(update=changes), known.model)
        return state(path)

    assert saved() is None
    assert saved(origin="imported", epoch=0, global_step=0) is None
    assert saved(epoch=1, origin="imported") is None
    middle = saved(epoch=1, step_in_epoch=3, global_step=15)
    assert middle.certain
    assert "in epoch 2 of 2" in middle.sentence
    saved(epoch=1, global_step=12)
    stranger = shutil.copy(tmp_path / "alone.pt", done.run.path / "stranger.pt")
    assert not state(Path(stranger)).certain
