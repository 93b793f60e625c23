"""The script that times `evaluate`, with few rows: both ways are measured."""

from __future__ import annotations

from tests.load import time_evaluate as script


def test_both_ways_are_measured() -> None:
    found = script.time_evaluate(5000, repeats=2)
    assert {name: len(runs) for name, runs in found.items()} == {"ours": 2, "bare join": 2}
    assert all(run.seconds > 0 and 0.01 < run.peak_gb < 4 for runs in found.values() for run in runs)
