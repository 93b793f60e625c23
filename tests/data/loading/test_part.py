"""A plan of loading: its order, its batches, and what no batch holds."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.recipe import DataRecipe
from tests.common import CPU


def plan_of(split: Split, *, train: bool = True, batch_size: int = 7, **which: object) -> LoadPlan:
    data = DataRecipe.model_validate(
        {key: which.pop(key) for key in list(which) if key in DataRecipe.model_fields}
    )
    return LoadPlan(split, data, "train" if train else "test", batch_size, 3, train, CPU, **which)  # type: ignore[arg-type]


def test_batches_follow_the_order_and_leave_a_short_one_out_in_training_only(split: Split) -> None:
    plan = plan_of(split)
    assert (plan.num_samples, plan.steps, plan.left_out) == (40, 5, 5)
    seen = np.concatenate([job.index for job in plan.jobs(4)])
    assert seen.tolist() == plan.order(4)[:35].tolist()
    judged = plan_of(split, train=False)
    assert (judged.num_samples, judged.steps, judged.left_out) == (16, 3, 0)
    assert np.concatenate([job.index for job in judged.jobs(0)]).tolist() == judged.indices.tolist()
    for job in judged.jobs(0):
        assert not any(part.any() for part in (job.views.top, job.views.left, job.views.flip))
        assert (job.transforms, job.pairs) == (None, None)


@pytest.mark.parametrize(
    ("setting", "padding"), [({}, 4), ({"padding": 2}, 2), ({"augment": "none"}, 0), ({"train": False}, 0)]
)
def test_padding_is_counted_where_windows_reach_over_the_edge(
    split: Split, setting: dict[str, object], padding: int
) -> None:
    plan = plan_of(split, **setting)  # type: ignore[arg-type]
    assert plan.padding == padding
    assert plan.resident_bytes == plan.num_samples * 3 * (32 + 2 * padding) ** 2


def test_a_worker_that_there_is_not_is_refused(split: Split) -> None:
    with pytest.raises(UsageError, match="worker 2 of 2"):
        plan_of(split, rank=2, world_size=2)
