"""Test the fault tests: take out the guard of each row of the fault table, and see whether the row's tests fail.

python -m tools.break_guards            # all rows
python -m tools.break_guards 3 17 45    # some
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Imported here once, so that the children that run tests need not import it.
import duckdb  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import torch  # noqa: F401
import torchvision  # noqa: F401

from tools.guards import GUARDS, Guard

ROOT = Path(__file__).parent.parent
# Seconds after which tests without their guard count as hanging, which is a failure too.
AT_MOST = 600


def main(rows: list[int]) -> int:
    """Print for each row how its tests end without the guard; return 1 unless all fail, as they should.

    Args:
        rows: numbers in the fault table; empty: all rows.
    """
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _copy_repository(tree)
        print(f"{'row':>3}  {'answer':<12}  guard")  # noqa: T201
        for row in rows or sorted(GUARDS):
            guard = GUARDS[row]
            answer = _test_without_guard(tree, row, guard)
            survived += answer != "failed"
            print(f"{row:>3}  {answer:<12}  {guard.what}", flush=True)  # noqa: T201
    return min(survived, 1)


def _copy_repository(tree: Path) -> None:
    """Copy the files of the working tree that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def _test_without_guard(tree: Path, row: int, guard: Guard) -> str:
    """Run the tests of a row with its guard and without it, and restore the files.

    Returns:
        ``failed``, as it should be; ``PASSED``; ``fails anyway``, with the guard too; or another problem.
    """
    with_guard = _run_tests(tree, row)
    if with_guard != "PASSED":
        return "fails anyway" if with_guard == "failed" else with_guard
    before = {patch.file: (tree / patch.file).read_text(encoding="utf-8") for patch in guard.patches}
    try:
        for patch in guard.patches:
            content = (tree / patch.file).read_text(encoding="utf-8")
            if content.count(patch.text) != 1:
                return f"{patch.file} holds the text {content.count(patch.text)} times"
            (tree / patch.file).write_text(content.replace(patch.text, patch.without), encoding="utf-8")
        return _run_tests(tree, row)
    finally:
        for name, content in before.items():
            (tree / name).write_text(content, encoding="utf-8")


def _run_tests(tree: Path, row: int) -> str:
    """Run the tests of a row on a tree, in a child process forked from this one, where torch is imported already.

    Returns:
        ``PASSED``; ``failed``, also where the child is killed or takes longer than `AT_MOST`; ``NO TEST``; or
        pytest's exit code.
    """
    name = f"row_{row:02}_"
    files = [
        path for path in sorted((tree / "tests" / "faults").glob("test_*.py")) if name in path.read_text()
    ]
    if not files:
        return "NO TEST"
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.setsid()  # a process group of its own, so that tests that hang end with all that they started
        os.chdir(tree)
        sys.path[:0] = [str(tree), str(tree / "kernels")]
        own_packages = ("mptctl", "mpt_kernels", "tests", "tools")
        for module in [module for module in sys.modules if module.split(".")[0] in own_packages]:
            del sys.modules[module]
        os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *map(str, files), "-k", name]))
    deadline = time.monotonic() + AT_MOST
    ended, status = os.waitpid(child, os.WNOHANG)
    while not ended:
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "failed"
        time.sleep(0.1)
        ended, status = os.waitpid(child, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:  # killed by a signal: that is a failure too
        return "failed"
    return {0: "PASSED", 1: "failed", 5: "NO TEST"}.get(code, f"pytest {code}")


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]]))
