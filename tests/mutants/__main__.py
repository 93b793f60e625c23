"""Whether the tests notice each mutant: `python -m tests.mutants [NAME...]`; exit code 1 if one lives.

A mutant lives in the test's own process alone, so tests of child processes cannot notice it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.mutants.mutant import Mutant, read_mutants

TESTS = Path(__file__).parent.parent
EXIT_CODES = {0: "LIVED", 1: "died", 5: "NO TEST"}
"""What pytest's exit code says about a mutant; any other one is an error of the run."""


def main() -> int:
    """1 where a mutant lived, or could not be tried."""
    names = sys.argv[1:]
    chosen = [mutant for mutant in read_mutants() if not names or mutant.name in names]
    lived = 0
    for mutant in chosen:
        began = time.monotonic()
        result = run_with(mutant)
        lived += result != "died"
        print(f"{result:<8} {time.monotonic() - began:4.0f} s  {mutant.name}", flush=True)
    print(f"{len(chosen)} mutants, {len(chosen) - lived} died")
    return 1 if lived or not chosen else 0


def run_with(mutant: Mutant) -> str:
    """Run the mutant's tests up to the first that fails; an error of the run is its last line."""
    tests = [str(TESTS / name) for name in mutant.tests]
    options = ("-p", "no:xdist", "-p", "tests.mutants.plugin", "--mutant", mutant.name, "-x", "--no-header")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode in EXIT_CODES:
        return EXIT_CODES[run.returncode]
    return (run.stderr or run.stdout).strip().splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
