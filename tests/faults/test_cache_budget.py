"""Row 47: the limit of the teacher cache, held by real processes together."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mptctl.errors import UsageError
from mptctl.recipe import load_recipe
from mptctl.teachers.cache_budget import CacheBudget

LIMIT = 1_000_000
RUN = """
import sys, time
from pathlib import Path
from mptctl.recipe import load_recipe
from mptctl.teachers.cache_budget import CacheBudget
folder, name, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
runtime = load_recipe("digits", ["runtime.cache_limit_gb=0.001"]).runtime
budget = CacheBudget(folder, runtime)
budget.reserve({folder / name: size})
print("reserved", flush=True)
sys.stdin.readline()
try:
    budget.evict()
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "epoch-0000.bin").write_bytes(b"x" * size)
    print("filled", flush=True)
    sys.stdin.readline()
except Exception as error:
    print(f"refused: {error}", flush=True)
"""


class Run:
    """A process that reserves room, and makes and fills it when told to."""

    def __init__(self, folder: Path, name: str, size: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(folder), name, str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> str:
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.communicate()


@pytest.fixture
def runs() -> Iterator[list[Run]]:
    started: list[Run] = []
    yield started
    for run in started:
        run.end()


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*/*"))


def budget(folder: Path) -> CacheBudget:
    return CacheBudget(folder, load_recipe("digits", ["runtime.cache_limit_gb=0.001"]).runtime)


def name(number: int) -> str:
    return f"old-{number:016x}"


def test_row_47_the_limit_holds_for_two_runs_together(tmp_path: Path, runs: list[Run]) -> None:
    runs += [Run(tmp_path, name(number), 600_000) for number in range(2)]
    assert [run.says() for run in runs] == ["reserved", "reserved"]
    for run in runs:
        run.go()
    said = sorted(run.says() for run in runs)
    assert said[0] == "filled"
    assert said[1].startswith("refused: runtime.cache_limit_gb 0.001: other runs")
    assert on_disk(tmp_path) <= LIMIT


def test_what_a_run_under_way_has_claimed_is_neither_given_away_nor_removed(
    tmp_path: Path, runs: list[Run]
) -> None:
    runs.append(Run(tmp_path, name(0), 600_000))
    runs[0].says()
    runs[0].go()
    assert runs[0].says() == "filled"
    with pytest.raises(UsageError, match="wait for them"):
        budget(tmp_path).reserve({tmp_path / name(1): 600_000})
    beside = budget(tmp_path)
    beside.reserve({tmp_path / name(1): 300_000})
    beside.evict()
    assert (tmp_path / name(0)).is_dir()
    # A cache that both fill takes its room once.
    beside.reserve({tmp_path / name(0): 600_000})
    runs[0].end()
    after = budget(tmp_path)
    after.reserve({tmp_path / name(2): 900_000})
    after.evict()
    assert not (tmp_path / name(0)).exists()


def test_only_folders_of_ours_make_room(tmp_path: Path) -> None:
    (tmp_path / "cache" / "thesis").mkdir(parents=True)
    (tmp_path / "cache" / "thesis" / "chapter.tex").write_bytes(b"x" * 500_000)
    (tmp_path / "cache" / name(1)).symlink_to(tmp_path / "cache" / "thesis")
    (tmp_path / "cache" / name(2)).mkdir()
    (tmp_path / "cache" / name(2) / "epoch-0000.bin").write_bytes(b"x" * 500_000)
    here = budget(tmp_path / "cache")
    here.reserve({tmp_path / "cache" / name(3): 900_000})
    here.evict()
    assert (tmp_path / "cache" / "thesis" / "chapter.tex").stat().st_size == 500_000
    assert (tmp_path / "cache" / name(1)).is_symlink()
    assert not (tmp_path / "cache" / name(2)).exists()
