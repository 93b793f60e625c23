"""Many kills over all jobs: python -m tests.soak --kills 50."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.jobs import JOBS
from tests.soak.kills import soak


def main() -> int:
    """1 where a job did not end as it does without kills."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[job.name for job in JOBS])
    given = parser.parse_args()
    rng, shares = random.Random(given.seed), sum(job.share for job in JOBS)
    all_same, kills = True, 0
    for job in JOBS:
        if given.only not in (None, job.name):
            continue
        part = given.kills if given.only else -(-given.kills * job.share // shares)
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            done = soak(job, part, Path(folder), rng)
        all_same &= done.same
        kills += done.kills
        ended = "the same as without" if done.same else "ANOTHER RESULT"
        print(f"{job.name:<10}{done.kills:>4} kills  {ended}  {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    print(f"{kills} kills, {'all as without' if all_same else 'NOT all as without'}")  # noqa: T201
    return 0 if all_same else 1


if __name__ == "__main__":
    sys.exit(main())
