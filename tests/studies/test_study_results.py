"""What is kept of a long run."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from mptctl.models.metrics_log import MetricsLine
from mptctl.studies.study_results import MOST_STEPS, thinned


def metrics(steps: int, epochs: int) -> bytes:
    """As a run writes them: a line for each step, and one at the end of each epoch."""
    lines = []
    for epoch in range(1, epochs + 1):
        first, last = (epoch - 1) * steps + 1, epoch * steps
        lines += [
            MetricsLine(event="step", epoch=epoch, step=step, lr=0.1) for step in range(first, last + 1)
        ]
        lines.append(MetricsLine(event="epoch", epoch=epoch, step=last, val_error=0.5))
    return b"".join(line.model_dump_json(exclude_none=True).encode() + b"\n" for line in lines)


@pytest.mark.parametrize("steps", [1, MOST_STEPS // 2])
def test_a_short_run_is_kept_whole(steps: int) -> None:
    assert thinned(metrics(steps, 2)) == metrics(steps, 2)


def test_of_a_long_run_all_epochs_stay_and_steps_from_its_beginning_to_its_end() -> None:
    whole = metrics(1000, 3)
    kept = [json.loads(line) for line in thinned(whole).splitlines()]
    assert [line["step"] for line in kept if line["event"] == "epoch"] == [1000, 2000, 3000]
    steps = [line["step"] for line in kept if line["event"] == "step"]
    assert len(steps) == MOST_STEPS
    assert (steps[0], steps[-1]) == (1, 3000)
    apart = {later - earlier for earlier, later in pairwise(steps)}
    assert apart == {6, 7}  # 2,999 steps in 499 equal parts are 6.01 each
    assert all(line in whole.splitlines() for line in thinned(whole).splitlines())
