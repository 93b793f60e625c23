"""Times `mptctl evaluate` on two predictions files, beside DuckDB's bare join of the same files."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from mptctl.errors import MptctlError, first_line
from mptctl.files import Model, scratch_folder
from mptctl.machine.facts import Machine, this_machine

CLASSES = 1000
# Bytes for tables and joins of either row: the default of `evaluate` on a machine with enough free memory.
MEMORY = 2 * 10**9
# SQL of the predictions of two models with some 76 and 80 % right: the label h % c in ``right`` percent of
# rows, else one of the ten classes after it. The divisors a and b make the two models err on different rows.
_PREDICTION = "CASE WHEN (h // {a}) % 100 < {right} THEN h % {c} ELSE (h + 1 + (h // {b}) % 10) % {c} END"
# SQL of each file's row order and predictions. The new file has another order: its factor is prime, and
# larger than the number of rows.
_FILES = {
    "old": ("i", _PREDICTION.format(a=1_000, right=76, b=10**9, c=CLASSES)),
    "new": ("(i * 1000000007 + 13) % {n}", _PREDICTION.format(a=100_000, right=80, b=10**11, c=CLASSES)),
}
_JOIN = "SELECT count(*) FROM read_parquet('{old}') AS o JOIN read_parquet('{new}') AS n USING (id)"
# The result is one row of one column: a struct with the counts of evaluate's report.
_COUNTS = """SELECT {{
    'both_right': count(*) FILTER (o.pred = o.label AND n.pred = o.label),
    'negative_flips': count(*) FILTER (o.pred = o.label AND n.pred <> o.label),
    'positive_flips': count(*) FILTER (o.pred <> o.label AND n.pred = o.label),
    'both_wrong': count(*) FILTER (o.pred <> o.label AND n.pred <> o.label)
}} FROM read_parquet('{old}') AS o JOIN read_parquet('{new}') AS n USING (id)"""
# Python program that runs one query in DuckDB and prints its rows as JSON, or its error without a traceback.
# The program's process imports nothing of mptctl.
_DUCKDB = """import duckdb, json, sys
sys.excepthook = lambda kind, error, traceback: print(error, file=sys.stderr)
settings = {"memory_limit": sys.argv[1], "temp_directory": sys.argv[2]}
connection = duckdb.connect(":memory:", config=settings)
connection.execute("SET enable_progress_bar = false")
print(json.dumps(connection.execute(sys.argv[3]).fetchall()))"""

RowName = Literal["ours", "bare-join"]


class EvaluateRow(Model):
    """The speed of one way to compare both files."""

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
    """Generate two predictions files, and time `mptctl evaluate` and the bare join on them in turns.

    The files lie in a temporary folder, which is removed.

    Args:
        rows: number of rows of each file.
        repeats: number of runs of each way, at least 1.
        memory_limit: bytes for tables and joins, of either way.
        say: told what is under way.

    Raises:
        MptctlError: a run failed, or `evaluate` counted other flips than DuckDB's own SQL.
    """
    with scratch_folder() as folder:
        paths = {side: str(folder / f"{side}.parquet") for side in _FILES}
        for side, path in paths.items():
            say(f"writing {rows:,} rows: {side}")
            _run_in_duckdb(_generating_sql(side, rows, path), memory_limit, folder)
        limit = f"{memory_limit}B"
        command = [sys.executable, "-m", "mptctl", "evaluate", paths["old"], paths["new"], "--json"]
        command += ["--memory-limit", limit]
        runs_of: dict[RowName, list[_Run]] = {"ours": [], "bare-join": []}
        for turn in range(repeats):
            for name, runs in runs_of.items():
                say(f"{name}, run {turn + 1} of {repeats}")
                if name == "ours":
                    runs.append(_run("mptctl evaluate", command))
                else:
                    runs.append(_run_in_duckdb(_JOIN.format(**paths), memory_limit, folder))
        say("counting again with DuckDB's SQL")
        report = json.loads(runs_of["ours"][-1].output)
        ((counts,),) = json.loads(_run_in_duckdb(_COUNTS.format(**paths), memory_limit, folder).output)
        if report["counts"] != counts or report["n"] != rows:
            raise MptctlError(f"evaluate counted {report['counts']}, and DuckDB's SQL {counts}: report this")
    ours, bare_join = (_summarize(name, runs, rows) for name, runs in runs_of.items())
    return EvaluateBench(
        machine=this_machine(),
        rows=[ours, bare_join],
        ratio=ours.seconds / bare_join.seconds,
        memory_limit_gb=memory_limit / 1e9,
    )


def _generating_sql(side: str, rows: int, path: str) -> str:
    """Write the SQL that generates a predictions file.

    Args:
        side: old or new.
        rows: number of rows.
        path: of the Parquet file.
    """
    order, prediction = _FILES[side]
    return f"""COPY (
    SELECT
        printf('test/%09d', k) AS id,
        {_class_name(f"h % {CLASSES}")} AS label,
        {_class_name(prediction)} AS pred
    FROM (
        SELECT k, (hash(k) // 2)::BIGINT AS h
        FROM (SELECT {order.format(n=rows)} AS k FROM range({rows}) AS t(i))
    )
) TO '{path}'"""


def _class_name(number: str) -> str:
    """Write the SQL of a class's name: n and the eight digits of the number that an SQL expression has."""
    return f"'n' || lpad(({number})::VARCHAR, 8, '0')"


class _Run(NamedTuple):
    """The output of a process, its wall-clock time, and the most memory that it held."""

    output: str
    seconds: float
    peak_gb: float


def _summarize(name: RowName, runs: list[_Run], rows: int) -> EvaluateRow:
    """Summarize the runs of one way to compare, on files with ``rows`` rows each."""
    seconds = [run.seconds for run in runs]
    return EvaluateRow(
        name=name,
        rows=rows,
        seconds=statistics.median(seconds),
        peak_gb=max(run.peak_gb for run in runs),
        runs=seconds,
    )


def _run_in_duckdb(query: str, memory_limit: int, folder: Path) -> _Run:
    """Run a query in a DuckDB process with a limit of memory in bytes; its output is JSON."""
    command = [sys.executable, "-c", _DUCKDB, f"{memory_limit}B", str(folder / "spilled"), query]
    return _run("DuckDB", command)


def _run(name: str, command: list[str]) -> _Run:
    """Run a command to its end, and measure it.

    Raises:
        MptctlError: the command failed; the message has ``name`` and the first line of standard error, or
            else the exit code.
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
            error = Exception(errors.read() or f"exit code {process.returncode}")
            raise MptctlError(f"{name}: failed ({first_line(error)})")
        return _Run(output.read(), seconds, peak_gb=usage.ru_maxrss * 1024 / 1e9)  # Linux counts KiB
