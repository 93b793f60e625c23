"""Times `mptctl evaluate` on two generated predictions files, beside DuckDB's bare join of the same files.

    python -m tests.load.time_evaluate --rows 10000000 --repeats 3 [--integers] [--disagree]

--disagree times `mptctl disagree`, which reads no labels and draws 1,000 rows.

The files lie in the temporary folder (TMPDIR); 10 million rows take 0.2 GB, and as much again may be spilled.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

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


class Run(NamedTuple):
    """The output of a process, its wall-clock and processor time, and the most memory that it held."""

    output: str
    seconds: float
    processor_seconds: float
    peak_gb: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of each file")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each way, in turns")
    parser.add_argument("--integers", action="store_true", help="ids are integers; default: text")
    parser.add_argument("--disagree", action="store_true", help="time disagree; default: evaluate")
    given = parser.parse_args()
    timed = time_evaluate(given.rows, given.repeats, integers=given.integers, disagree=given.disagree)
    for name, runs in timed.items():
        seconds = [run.seconds for run in runs]
        processor = statistics.median(run.processor_seconds for run in runs)
        peak = max(run.peak_gb for run in runs)
        sys.stdout.write(
            f"{name}: {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), "
            f"{processor:.2f} s of processors, {peak:.2f} GB\n"
        )
    return 0


def time_evaluate(
    rows: int, repeats: int, *, integers: bool = False, disagree: bool = False
) -> dict[str, list[Run]]:
    """The runs of `mptctl evaluate`, or `disagree`, and of the bare join, in turns, on two files of so many rows.

    Args:
        rows: of each file.
        repeats: runs of each way.
        integers: ids are integers, and not text.
        disagree: time `disagree`.

    Raises:
        AssertionError: `evaluate` counted other flips, or `disagree` other differences, than DuckDB's own SQL.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        paths = {side: str(folder / f"{side}.parquet") for side in _FILES}
        for side, path in paths.items():
            run_in_duckdb(
                generating_sql(side, rows, path, "k" if integers else "printf('test/%09d', k)"), folder
            )
        command = [
            sys.executable, "-m", "mptctl", "evaluate", paths["old"], paths["new"], "--old-classes", "all",
            "--json",
        ]  # fmt: skip
        if disagree:
            command[3:] = ["disagree", paths["old"], paths["new"], "--limit", "2", "--draw", "1000", "--json"]
        command += ["--memory-limit", f"{MEMORY}B"]
        runs: dict[str, list[Run]] = {"ours": [], "bare join": []}
        for _ in range(repeats):
            runs["ours"].append(run(command))
            runs["bare join"].append(run_in_duckdb(_JOIN.format(**paths), folder))
        report = json.loads(runs["ours"][-1].output)
        if disagree:
            differ = f"{_JOIN.format(**paths)} WHERE o.pred <> n.pred"
            ((count,),) = json.loads(run_in_duckdb(differ, folder).output)
            assert (report["disagreements"]["count"], report["n"]) == (count, rows)
            return runs
        ((counts,),) = json.loads(run_in_duckdb(_COUNTS.format(**paths), folder).output)
        assert (report["counts"], report["n"]) == (counts, rows)
    return runs


def generating_sql(side: str, rows: int, path: str, sample: str) -> str:
    """Write the SQL that generates a predictions file.

    Args:
        side: old or new.
        rows: number of rows.
        path: of the Parquet file.
        sample: SQL of the id of sample k.
    """
    order, prediction = _FILES[side]
    return f"""COPY (
    SELECT
        {sample} AS id,
        {class_name(f"h % {CLASSES}")} AS label,
        {class_name(prediction)} AS pred
    FROM (
        SELECT k, (hash(k) // 2)::BIGINT AS h
        FROM (SELECT {order.format(n=rows)} AS k FROM range({rows}) AS t(i))
    )
) TO '{path}'"""


def class_name(number: str) -> str:
    """Write the SQL of a class's name: n and the eight digits of the number that an SQL expression has."""
    return f"'n' || lpad(({number})::VARCHAR, 8, '0')"


def run_in_duckdb(query: str, folder: Path) -> Run:
    """Run a query in a DuckDB process; its output is JSON."""
    return run([sys.executable, "-c", _DUCKDB, f"{MEMORY}B", str(folder / "spilled"), query])


def run(command: list[str]) -> Run:
    """Run a command to its end, and measure it; a failed one is a CalledProcessError."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        output.seek(0)
        processor_seconds = usage.ru_utime + usage.ru_stime
        return Run(
            output.read(), seconds, processor_seconds, peak_gb=usage.ru_maxrss * 1024 / 1e9
        )  # Linux: KiB


if __name__ == "__main__":
    sys.exit(main())
