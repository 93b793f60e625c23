"""Take out the guard of each row of the fault table, and see that the row's test fails: a test of the tests.

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

# What the tests import, once.
import duckdb  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import torch  # noqa: F401
import torchvision  # noqa: F401

from tools.guards import GUARDS, Guard

ROOT = Path(__file__).parent.parent
# Seconds after which a test without its guard counts as hanging, which is a failure too.
AT_MOST = 600


def main(rows: list[int]) -> int:
    """Print a line for each row; 1 where a guard could be taken out and nothing failed."""
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _copy(tree)
        print(f"{'row':>3}  {'answer':<12}  guard")  # noqa: T201
        for row in rows or sorted(GUARDS):
            guard = GUARDS[row]
            answer = _broken(tree, row, guard)
            survived += answer != "failed"
            print(f"{row:>3}  {answer:<12}  {guard.what}", flush=True)  # noqa: T201
    return min(survived, 1)


def _copy(tree: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def _broken(tree: Path, row: int, guard: Guard) -> str:
    """Run the row's tests with its guard, and without it: ``failed`` is what is wanted."""
    if (sound := _tested(tree, row)) != "PASSED":
        return "fails anyway" if sound == "failed" else sound
    before = {patch.file: (tree / patch.file).read_text(encoding="utf-8") for patch in guard.patches}
    try:
        for patch in guard.patches:
            content = (tree / patch.file).read_text(encoding="utf-8")
            if content.count(patch.text) != 1:
                return f"{patch.file} holds the text {content.count(patch.text)} times"
            (tree / patch.file).write_text(content.replace(patch.text, patch.without), encoding="utf-8")
        return _tested(tree, row)
    finally:
        for name, content in before.items():
            (tree / name).write_text(content, encoding="utf-8")


def _tested(tree: Path, row: int) -> str:
    """The tests of a row on a tree, in a child of this process, so that torch is imported once for all rows."""
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
        os.setsid()  # so that what hangs can be ended with all that it started
        os.chdir(tree)
        sys.path[:0] = [str(tree), str(tree / "kernels")]
        of_ours = ("mptctl", "mpt_kernels", "tests", "tools")
        for module in [module for module in sys.modules if module.split(".")[0] in of_ours]:
            del sys.modules[module]
        os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *map(str, files), "-k", name]))
    until = time.monotonic() + AT_MOST
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "failed"
        time.sleep(0.1)
    code = os.waitstatus_to_exitcode(ended[1])
    # A guard without which the process itself is ended was one too.
    return "failed" if code < 0 else {0: "PASSED", 1: "failed", 5: "NO TEST"}.get(code, f"pytest {code}")


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]]))
