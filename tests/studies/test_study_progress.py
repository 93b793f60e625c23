"""The board of a study, without training: who is next, what a failure blocks, and what is read of a run."""

from __future__ import annotations

from pathlib import Path

from mptctl.data.split import make_split
from mptctl.models.metrics_log import MetricsLine, append_metrics
from mptctl.studies.study_plan import PlannedRun, plan_study
from mptctl.studies.study_report import Board, last_line
from tests.studies.test_study_plan import study


def board_of(tmp_path: Path, seen: list[Board], done: str = "") -> tuple[dict[str, PlannedRun], Board]:
    split = make_split("digits", run_root=tmp_path / "1", seed=1)
    runs = plan_study(study("no-treatment", "mpt-kl"), [1])
    found = {run.key: "done" if run.name == done else "missing" for run in runs}
    return {run.name: run for run in runs}, Board(runs, {"1": split}, found, seen.append)  # type: ignore[arg-type]


def test_what_learns_from_a_failed_run_is_blocked_and_the_others_go_on(tmp_path: Path) -> None:
    seen: list[Board] = []
    runs, board = board_of(tmp_path, seen, done="old")
    assert board.next_run() == runs["ref"]
    board.mark_running(runs["ref"])
    board.mark_failed(runs["ref"], "out of luck")
    assert board.next_run() == runs["no-treatment"]
    assert {row.run: (row.status, row.error) for row in board.rows()} == {
        "old": ("done", None),
        "ref": ("failed", "out of luck"),
        "no-treatment": ("waiting", None),
        "mpt-kl": ("blocked", "its teacher 1/ref failed"),
    }
    assert seen[-1].runs_of("failed") == [runs["ref"]]
    assert seen[-1].runs_of("blocked") == [runs["mpt-kl"]]


def test_a_run_whose_process_died_goes_on_but_not_for_ever(tmp_path: Path) -> None:
    runs, board = board_of(tmp_path, [])
    for _ in range(2):
        board.mark_running(runs["old"])
        board.restart(runs["old"], "killed", 2)
        assert board.next_run() == runs["old"]
    board.restart(runs["old"], "killed", 2)
    (row, *_) = board.rows()
    assert (row.status, row.error) == ("failed", "its process died 3 times: killed")


def test_progress_is_what_the_run_itself_has_written(tmp_path: Path) -> None:
    seen: list[Board] = []
    runs, board = board_of(tmp_path, seen)
    board.mark_running(runs["old"])
    metrics = board.folder(runs["old"]) / "metrics.jsonl"
    metrics.parent.mkdir()
    append_metrics(metrics, MetricsLine(event="step", epoch=1, step=1, seconds_left=7.0))
    with open(metrics, "a", encoding="utf-8") as file:
        file.write('{"event": "step", "epoch"')  # cut short, as by a kill
    board.read_progress()
    (old, *_) = seen[-1].runs
    assert (old.step, old.total_steps, old.seconds_left) == (1, 2, 7.0)
    assert seen[-1].seconds_left is not None
    assert last_line(tmp_path / "none") is None


def test_time_is_not_promised_before_a_step_was_seen(tmp_path: Path) -> None:
    seen: list[Board] = []
    board_of(tmp_path, seen, done="old")
    assert seen[-1].seconds_left is None
