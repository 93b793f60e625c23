"""Memory and disk of a comparison: limits that hold, a folder that is always removed, a light start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mptctl.errors import StorageError, UsageError
from mptctl.evaluation.reading.workspace import LEAST, MOST, default_limit, parse_memory_limit, workspace
from mptctl.files.scratch import MARK, PREFIX

SPILLING = (
    "SELECT count(*) FROM (SELECT DISTINCT hash(i)::VARCHAR || repeat('x', 20) AS x FROM range({}) t(i))"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary folders are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_what_exceeds_the_limit_goes_to_a_folder_of_our_own_that_is_removed(folder: Path) -> None:
    with workspace(LEAST) as work:
        work.fetch(
            "CREATE TABLE big AS SELECT hash(i)::VARCHAR || repeat('x', 60) AS x FROM range(2_000_000) t(i)"
        )
        (own,) = folder.iterdir()
        assert own.stat().st_mode & 0o777 == 0o700
        assert any(path.name != MARK for path in own.iterdir())
    assert list(folder.iterdir()) == []


def test_the_folder_goes_with_an_error_too(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt), workspace(LEAST) as work:  # noqa: PT012
        work.fetch("SELECT 1")
        assert list(folder.iterdir())
        raise KeyboardInterrupt
    assert list(folder.iterdir()) == []


def test_memory_that_runs_out_is_said_with_what_to_do(folder: Path) -> None:
    with workspace(LEAST) as work:
        work.fetch("SET max_temp_directory_size = '1MB'")
        with pytest.raises(
            StorageError, match=r"more than the 64 MB of --memory-limit .*; raise --memory-limit"
        ) as caught:
            work.fetch(SPILLING.format(5_000_000))
        # Also after a first batch.
        with pytest.raises(StorageError, match=r"of --memory-limit .*; raise --memory-limit"):
            list(work.batches(f"SELECT 1 UNION ALL {SPILLING.format(5_000_000)}"))
    assert caught.value.exit_code == 7
    assert list(folder.iterdir()) == []


def test_sizes() -> None:
    for text, size in (
        ("2GB", 2 * 10**9),
        ("500 mb", 5 * 10**8),
        ("1.5gb", 15 * 10**8),
        ("100000000", 10**8),
    ):
        assert parse_memory_limit(text) == size
    for text in ("", "much", "-1GB", "0", "1kB", "1e9", "inf", "9" * 40 + "GB"):
        with pytest.raises(UsageError, match="--memory-limit"):
            parse_memory_limit(text)


def test_the_default_leaves_half_of_what_is_free() -> None:
    assert LEAST <= default_limit() <= MOST


def test_ctrl_c_in_a_query_is_no_error_of_the_query() -> None:
    with workspace() as work:
        work.fetch("SELECT 1")
        threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            work.fetch("SELECT max(hash(i)) FROM range(2_000_000_000) t(i)")


@pytest.fixture(scope="module")
def three_million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of so many predictions."""
    import duckdb

    file = tmp_path_factory.mktemp("large") / "p.parquet"
    duckdb.execute(
        f"COPY (SELECT 'test/' || hash(i) AS id, i % 9 AS label, i % 9 AS pred FROM range(3_000_000) t(i)) TO '{file}'"
    )
    return file


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_nothing_in_the_temporary_folder(
    tmp_path: Path, three_million: Path, number: int, code: int
) -> None:
    for name in ("old", "new"):
        os.link(three_million, tmp_path / f"{name}.parquet")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    words = ["evaluate", "old.parquet", "new.parquet", "--memory-limit", "64MB"]
    process = subprocess.Popen(
        [sys.executable, "-m", "mptctl", *words], cwd=tmp_path, env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    # Our folder alone: Python first tries the place out with a file of its own.
    while not list(temporary.glob(f"{PREFIX}*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (code, "mptctl: stopped\n")
    assert list(temporary.iterdir()) == []
