"""Row 89: comparisons from many threads of one Python program."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import mptctl as package
from mptctl.integrations import FlipMonitor
from tests.evaluation.files import write

SAMPLES = 400


def arrays(flips: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and predictions of which the first are wrong."""
    labels = np.arange(SAMPLES) % 4
    return labels, np.where(np.arange(SAMPLES) < flips, (labels + 1) % 4, labels)


def by_arrays(folder: Path, flips: int) -> int:
    labels, new = arrays(flips)
    report = package.evaluate(labels, old=labels, new=new, old_classes="all")
    assert report.gate(max_nfr=0.5, allow_identical=True).passed
    return int(report.counts.negative_flips)


def by_files(folder: Path, flips: int) -> int:
    """CSV files, whose rows lie in tables of DuckDB, with slices and a gate file."""
    labels, new = arrays(flips)
    columns = {"id": np.arange(SAMPLES), "label": labels, "country": labels % 2}
    old = write(folder / f"old{flips}.csv", **columns, pred=labels)
    report = package.evaluate(
        old, write(folder / f"new{flips}.csv", **columns, pred=new), old_classes="all", by="country"
    )
    gate = folder / f"gate{flips}.yaml"
    gate.write_text(
        "allow: [identical]\nlimits: {max_nfr: 50}\nslices: [{by: {country: '1'}, max_nfr: 50}]\n"
    )
    assert report.gate(gate).passed
    return int(report.counts.negative_flips)


def by_monitor(folder: Path, flips: int) -> int:
    labels, new = arrays(flips)
    return int(FlipMonitor(labels, labels, say=None)(new).counts.negative_flips)


@pytest.mark.parametrize("count", [by_arrays, by_files, by_monitor])
@pytest.mark.filterwarnings("ignore::mptctl.errors.ComparisonWarning")
def test_row_89_comparisons_from_many_threads_are_right(
    tmp_path: Path, count: Callable[[Path, int], int]
) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda flips: count(tmp_path, flips), range(16)))
    assert found == list(range(16))


def test_row_89_one_report_is_asked_by_many_threads(tmp_path: Path) -> None:
    labels, new = arrays(20)
    ids = [str(i) for i in range(SAMPLES)]
    report = package.evaluate(labels, old=labels, new=new, old_classes="all", ids=ids, must_keep=ids[20:])
    with ThreadPoolExecutor(8) as threads:
        limits = [0.01 * (1 + i % 9) for i in range(24)]
        found = list(threads.map(lambda limit: report.gate(max_nfr=limit).passed, limits))
    assert found == [limit > 0.049 for limit in limits]


def test_row_89_a_report_outlives_the_thread_that_made_it(tmp_path: Path) -> None:
    labels, new = arrays(20)
    known = {"id": np.arange(SAMPLES), "label": labels}
    old, replacement = (
        write(tmp_path / f"{i}.csv", **known, pred=pred) for i, pred in enumerate((labels, new))
    )
    with ThreadPoolExecutor(1) as thread:
        report = thread.submit(package.evaluate, old, replacement, old_classes="all").result()
    gate = tmp_path / "gate.yaml"
    gate.write_text("limits: {max_nfr: 6}\nmust_keep: {ids: ['399']}\n")
    assert report.gate(gate).passed
