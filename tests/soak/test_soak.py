"""Five kills at random moments: one of each job; `make soak` does fifty."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.soak.jobs import JOBS, Job
from tests.soak.kills import soak


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS, ids=[job.name for job in JOBS])
def test_a_killed_job_ends_as_one_that_was_left_alone(job: Job, tmp_path: Path) -> None:
    done = soak(job, 1, tmp_path, random.Random(job.name))
    assert done.kills == 1
    assert done.same
