"""Kills at random moments, one of each job, whose imports are there; `make soak` does fifty, with their imports."""

from __future__ import annotations

import math
import os
import random
from pathlib import Path

import pytest

from tests.forked import Forked, mptctl_process
from tests.soak.jobs import JOBS, Job
from tests.soak.kills import soak, whole_process

KILLS = int(os.environ.get("MPTCTL_KILLS", 1))
# The others train, which the rows of faults kill at moments of their own.
QUICK = ("split", "pack")


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(job, id=job.name, marks=[] if job.name in QUICK else [pytest.mark.nightly])
        for job in JOBS
    ],
)
def test_a_killed_job_ends_as_one_that_was_left_alone(job: Job, tmp_path: Path) -> None:
    kills = math.ceil(KILLS * job.share / sum(each.share for each in JOBS))
    mptctl_process("--version")  # so that the time without kills is not that of the imports
    soak(job, kills, tmp_path, random.Random(job.name), Forked if kills == 1 else whole_process)
