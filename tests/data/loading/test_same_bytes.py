"""Loaded pictures depend on (seed, epoch, row) alone: not on batch, threads, workers or the step of a resume."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import Batch
from mptctl.data.split import Split
from tests.common import IN_MEMORY, KINDS, MakeLoader
from tests.data.loading.test_transformed import ALL

SETTINGS: dict[str, dict[str, Any]] = {
    "windows": {"padding": 1},
    "crops": {"augment": "random-resized-crop"},
    "transformed": {"padding": 1, "transforms": ALL},
    "mixed and repeated": {"mixup": 1.0, "cutmix": 1.0, "mix_probability": 0.8, "sampling": "balanced"},
}
CASES = [(kind, name) for kind in KINDS for name in SETTINGS if (kind in IN_MEMORY, name) != (True, "crops")]


def seen(batches: Iterable[Batch]) -> list[Tensor]:
    """Pictures, labels and rows of batches one behind the other; where pictures are mixed, labels and weights too."""
    columns = zip(
        *((each.images, each.labels, each.index, *(each.mixing or ())) for each in batches), strict=True
    )
    return [torch.cat(column) for column in columns]


def assert_same(one: list[Tensor], other: list[Tensor], start: int = 0) -> None:
    assert len(one) == len(other)
    assert all(torch.equal(a[start:], b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_batch_size_threads_and_depth_change_no_bit(
    uneven: Split, loader_of: MakeLoader, kind: str, name: str
) -> None:
    setting = SETTINGS[name] | {"image_size": 8, "batch_size": 20}
    whole = seen(loader_of(uneven, kind, **setting).epoch(1))
    for change in ({"batch_size": 4}, {"batch_size": 40, "threads": 1, "prefetch": 1}, {"threads": 5}):
        assert_same(whole, seen(loader_of(uneven, kind, **setting | change).epoch(1)))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_pass_goes_on_from_any_step_as_if_it_had_not_stopped(
    uneven: Split, loader_of: MakeLoader, kind: str, name: str
) -> None:
    setting = SETTINGS[name] | {"image_size": 8, "batch_size": 8}
    loader = loader_of(uneven, kind, **setting)
    whole = seen(loader.epoch(4))
    for step in range(loader.steps_per_epoch):
        stopped = loader.epoch(4)
        assert len(list(islice(stopped, step))) == step
        stopped.close()  # type: ignore[attr-defined]
        assert_same(whole, seen(loader.epoch(4, step)), step * 8)
    assert_same(whole, seen(loader_of(uneven, kind, **setting).epoch(4, 2)), 16)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_several_workers_make_the_global_batches_of_one(
    uneven: Split, loader_of: MakeLoader, kind: str, name: str
) -> None:
    def loaders(size: int, **how: Any) -> list[Loader]:
        setting = SETTINGS[name] | {"image_size": 8, "batch_size": 12} | how
        return [loader_of(uneven, kind, rank=rank, world_size=size, **setting) for rank in range(size)]

    alone = [list(loaders(1)[0].epoch(epoch)) for epoch in (0, 1)]
    for workers in (2, 3):
        many = loaders(workers)
        for epoch, steps in enumerate(alone):
            assert [len(batch.index) for batch in steps] == [12, 12, 12]  # 7 of 43 are dropped
            for whole, *parts in zip(steps, *(loader.epoch(epoch) for loader in many), strict=True):
                assert_same(seen([whole]), seen(parts))
        judged = [batch for loader in loaders(workers, part="test", train=False) for batch in loader.epoch(0)]
        assert sorted(i for batch in judged for i in batch.index.tolist()) == uneven.indices("test").tolist()
