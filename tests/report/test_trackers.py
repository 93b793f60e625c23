"""`--log` with the one tracker that is always there, and what a tracker that fails does to the rest: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mptctl.models.metrics_log import MetricsLine
from mptctl.report.trackers.logged_run import line_values, tracker_entries


@pytest.mark.parametrize("content", ["", "[]", "{", '{"mlflow": "1"}'])
def test_what_is_damaged_is_as_if_it_were_new(content: str, tmp_path: Path) -> None:
    (tmp_path / "trackers.json").write_text(content)
    assert tracker_entries(tmp_path) == ({"mlflow": "1"} if "1" in content else {})


def test_lines_as_numbers() -> None:
    line = MetricsLine(event="step", epoch=1, step=3, lr=0.5, terms={"ce": 1.0}, seconds_left=9.0)
    assert line_values(line) == {"epoch": 1, "lr": 0.5, "terms/ce": 1.0}
    assert line_values(MetricsLine(event="checkpoint", epoch=1, step=3)) == {}
