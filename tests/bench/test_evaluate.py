"""`bench evaluate` with few rows: both rows are measured, and counts that differ from SQL's are an error."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from mptctl.bench import evaluate
from mptctl.bench.evaluate import _run, _run_in_duckdb, bench_evaluate
from mptctl.errors import MptctlError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_both_rows_are_measured_and_the_files_removed(folder: Path) -> None:
    said: list[str] = []
    found = bench_evaluate(5000, repeats=2, say=said.append)
    assert [(row.name, row.rows) for row in found.rows] == [("ours", 5000), ("bare-join", 5000)]
    assert all(row.seconds > 0 and 0.01 < row.peak_gb < 4 and len(row.runs) == 2 for row in found.rows)
    assert all(row.seconds == pytest.approx(sum(row.runs) / 2) for row in found.rows)
    assert found.ratio == pytest.approx(found.rows[0].seconds / found.rows[1].seconds)
    assert "counting again with DuckDB's SQL" in said
    assert list(folder.iterdir()) == []


def test_counts_that_are_not_those_of_sql_fail_loudly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        evaluate, "_COUNTS", evaluate._COUNTS.replace("o.pred = o.label", "o.pred <> o.label")
    )
    with pytest.raises(MptctlError, match="DuckDB's SQL"):
        bench_evaluate(5000, repeats=1, say=lambda line: None)
    assert list(folder.iterdir()) == []


def test_a_run_that_fails_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(evaluate._FILES, "new", ("i % 7", evaluate._FILES["new"][1]))
    with pytest.raises(MptctlError, match="ids stand there more than once"):
        bench_evaluate(5000, repeats=1, say=lambda line: None)


def test_a_query_that_fails_names_duckdb_and_its_error(folder: Path) -> None:
    with pytest.raises(MptctlError, match=r"^DuckDB: failed \([^\n]*no_table"):
        _run_in_duckdb("SELECT * FROM no_table", 10**9, folder)


def test_memory_is_counted_in_gb_of_a_thousand_million_bytes() -> None:
    program = (
        "import resource; held = bytearray(3 * 10**8); held[::4096] = b'1' * len(held[::4096]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    )
    run = _run("python", [sys.executable, "-c", program])
    assert run.peak_gb == pytest.approx(int(run.output) / 1e9, rel=0.005)
