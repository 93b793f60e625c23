"""How long the end of a run waits for a tracker that does not answer."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from mptctl.names import TrackerName
from mptctl.report.trackers import background
from mptctl.report.trackers.background import Background
from mptctl.report.trackers.tracker import Entry, Tracker


@pytest.mark.parametrize(("finished", "patience", "waited"), [(True, 0.2, "0.2"), (False, 30.0, "0.3")])
def test_a_run_that_is_stopped_waits_three_seconds_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool, patience: float, waited: str
) -> None:
    assert background.PATIENCE_OF_A_STOP == 3
    monkeypatch.setattr(background, "PATIENCE_OF_A_STOP", 0.3)
    said: list[str] = []
    answered = threading.Event()
    entry = Entry("run", tmp_path, tmp_path)
    tracker = Background(TrackerName.TENSORBOARD, entry, lambda *told: None, said.append, patience)

    def hang(to: Tracker) -> None:
        answered.wait(60)

    tracker.do(hang)
    begun = time.monotonic()
    tracker.close(finished=finished)
    assert time.monotonic() - begun < 10
    answered.set()
    wanted = f"has not taken everything {waited} s after the end; the rest is not logged"
    assert said == [f"warning: --log tensorboard: {wanted}"]
