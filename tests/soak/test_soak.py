"""Kills at random moments, one of each job, whose imports are there; `make soak` does fifty, with their imports."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.forked import Forked
from tests.soak.jobs import JOBS, Job
from tests.soak.kills import soak

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
    done = soak(job, 1, tmp_path, random.Random(job.name), Forked)
    assert done.kills == 1
    assert done.same
