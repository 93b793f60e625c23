"""Speed of a comparison of two predictions files, beside DuckDB's bare join of the same files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import Field

from mptctl.errors import MptctlError, first_line
from mptctl.files import Model, scratch_folder
from mptctl.machine.facts import Machine, this_machine

CLASSES = 1000
# Bytes for tables and joins, ours and DuckDB's: what `evaluate` takes where enough is free.
MEMORY = 2 * 10**9
# Answers as two models of some 76 and 80 % give them: right by a share, else one of the ten classes beside.
_ANSWER = "CASE WHEN (h // {a}) % 100 < {right} THEN h % {c} ELSE (h + 1 + (h // {b}) % 10) % {c} END"
_SIDES = {
    "old": ("i", _ANSWER.format(a=1_000, right=76, b=10**9, c=CLASSES)),
    # In another order: the factor is prime, and larger than the number of rows.
    "new": ("(i * 1000000007 + 13) % {n}", _ANSWER.format(a=100_000, right=80, b=10**11, c=CLASSES)),
}
_JOIN = "SELECT count(*) FROM read_parquet('{old}') AS o JOIN read_parquet('{new}') AS n USING (id)"
_COUNTS = """SELECT count(*) FILTER (o.pred = o.label AND n.pred = o.label),
count(*) FILTER (o.pred = o.label AND n.pred <> o.label),
count(*) FILTER (o.pred <> o.label AND n.pred = o.label),
count(*) FILTER (o.pred <> o.label AND n.pred <> o.label)
FROM read_parquet('{old}') AS o JOIN read_parquet('{new}') AS n USING (id)"""
# A process of its own for DuckDB alone: what is measured there is nothing of ours.
_DUCKDB = """import duckdb, json, sys
settings = {"memory_limit": sys.argv[1], "temp_directory": sys.argv[2]}
connection = duckdb.connect(":memory:", config=settings)
connection.execute("SET enable_progress_bar = false")
print(json.dumps(connection.execute(sys.argv[3]).fetchall()))"""

RowName = Literal["ours", "bare-join"]


class EvaluateRow(Model):
    """The speed of one way to go through both files."""

    name: RowName = Field(
        description="`mptctl evaluate OLD NEW --json`, or DuckDB's count of the joined rows alone"
    )
    rows: int = Field(description="rows of each file")
    seconds: float = Field(description="median of the runs, from the start of the process to its end")
    peak_gb: float = Field(description="most memory that a run's process held, GB")
    runs: list[float] = Field(description="seconds of each run; both rows take turns")


class EvaluateBench(Model):
    """The object that `mptctl bench evaluate --json` prints."""

    bench: Literal["evaluate"] = "evaluate"
    machine: Machine = Field(description="where it was measured")
    rows: list[EvaluateRow] = Field(description="ours, and the bare join")
    ratio: float = Field(description="seconds of ours / seconds of the bare join")
    memory_limit_gb: float = Field(description="what both may take for tables and joins, GB")


def bench_evaluate(
    rows: int, *, repeats: int, memory_limit: int = MEMORY, say: Callable[[str], None]
) -> EvaluateBench:
    """Measure; the files lie in a temporary folder that is removed.

    Args:
        rows: of each of the two files. repeats: runs of each row. memory_limit: bytes, for both.
        say: told what is under way.

    Raises:
        MptctlError: a run failed, or the counts are not those of DuckDB's own SQL.
    """
    with scratch_folder() as folder:
        paths = {side: str(folder / f"{side}.parquet") for side in _SIDES}
        for side, path in paths.items():
            say(f"writing {rows:,} rows: {side}")
            _duckdb(_generation(side, rows, path), memory_limit, folder)
        limit = f"{memory_limit}B"
        command = [sys.executable, "-m", "mptctl", "evaluate", paths["old"], paths["new"], "--json"]
        command += ["--memory-limit", limit]
        found: dict[RowName, list[tuple[float, float]]] = {"ours": [], "bare-join": []}
        for turn in range(repeats):
            for name, runs in found.items():
                say(f"{name}, run {turn + 1} of {repeats}")
                if name == "ours":
                    output, seconds, peak = _measured(command)
                    page = json.loads(output)
                else:
                    output, seconds, peak = _duckdb(_JOIN.format(**paths), memory_limit, folder)
                runs.append((seconds, peak))
        say("counting again with DuckDB's SQL")
        counts = json.loads(_duckdb(_COUNTS.format(**paths), memory_limit, folder)[0])[0]
        if list(page["counts"].values()) != counts or page["n"] != rows:
            raise MptctlError(f"evaluate counted {page['counts']}, and DuckDB's SQL {counts}: report this")
    measured = [_row(name, rows, runs) for name, runs in found.items()]
    return EvaluateBench(
        machine=this_machine(),
        rows=measured,
        ratio=measured[0].seconds / measured[1].seconds,
        memory_limit_gb=memory_limit / 1e9,
    )


def _generation(side: str, rows: int, path: str) -> str:
    place, answer = _SIDES[side]
    name = "'n' || lpad(({})::VARCHAR, 8, '0')"
    return (
        f"COPY (SELECT printf('test/%09d', k) AS id, {name.format(f'h % {CLASSES}')} AS label, "
        f"{name.format(answer)} AS pred FROM (SELECT k, (hash(k) // 2)::BIGINT AS h FROM "
        f"(SELECT {place.format(n=rows)} AS k FROM range({rows}) AS t(i)))) TO '{path}'"
    )


def _row(name: RowName, rows: int, runs: list[tuple[float, float]]) -> EvaluateRow:
    seconds = sorted(seconds for seconds, _ in runs)
    return EvaluateRow(
        name=name,
        rows=rows,
        seconds=seconds[len(seconds) // 2],
        peak_gb=max(peak for _, peak in runs),
        runs=[seconds for seconds, _ in runs],
    )


def _duckdb(query: str, memory_limit: int, folder: Path) -> tuple[str, float, float]:
    return _measured([sys.executable, "-c", _DUCKDB, f"{memory_limit}B", str(folder / "spilled"), query])


def _measured(command: list[str]) -> tuple[str, float, float]:
    """The output of a process, its seconds, and the most memory that it held in GB.

    Raises:
        MptctlError: it failed.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            raise MptctlError(f"{command[2]}: failed ({first_line(Exception(errors.read()))})")
        return output.read(), seconds, usage.ru_maxrss / 1e6  # kilobytes
