"""``metrics.jsonl``: what is written is read, what a kill cut short is not, what is done again goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mptctl.errors import CheckpointError, StorageError
from mptctl.models.metrics_log import (
    MetricsLine,
    append_metrics,
    read_metrics,
    steps_logged_after,
    truncate_metrics,
)
from mptctl.models.run_folder import RunDir


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


def test_steps_past_a_checkpoint_are_counted(log: Path) -> None:
    assert [steps_logged_after(log, step) for step in (0, 2, 4, 6)] == [4, 2, 0, -2]


@pytest.mark.parametrize("validated", [True, False])
def test_what_is_done_again_goes(log: Path, validated: bool) -> None:
    truncate_metrics(log, 2, validated=validated)
    assert written(log) == [("step", 2), *([("epoch", 2)] if validated else []), ("checkpoint", 2)]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="none"):
        append_metrics(tmp_path / "none" / "metrics.jsonl", MetricsLine(event="done", epoch=1, step=1))
