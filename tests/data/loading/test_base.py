"""The base of all loaders: statistics, what they advise, and what a batch says of itself."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from mptctl.data.loading.base import Loader, LoaderStats
from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import Batch, BatchJob, LoadPlan
from mptctl.data.split import Split
from mptctl.errors import DataError
from mptctl.recipe import DataRecipe
from tests.common import CPU, KINDS, MakeLoader

CONSUMER = 0.02  # seconds that a consumer takes for a batch


class SlowLoader(Loader):
    """Each batch takes a while."""

    name = recipe_name = "threaded"
    advice = "be faster"

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        size = self.plan.data.image_size
        for job in jobs:
            time.sleep(CONSUMER)
            yield self.make_batch(job, torch.zeros(len(job.index), size, size, 3))


def test_statistics_count_pictures_and_all_waiting_but_not_the_consumers_own_time(split: Split) -> None:
    loader = SlowLoader(LoadPlan(split, DataRecipe(), "train", 8, 0, True, CPU), "a test")
    assert loader.stats.images_per_second == 0
    begin = time.perf_counter()
    for _ in loader.epoch(0):
        time.sleep(CONSUMER)
    whole = time.perf_counter() - begin
    stats = loader.stats
    assert stats.images == 40
    assert stats.images_per_second == pytest.approx(40 / stats.seconds)
    assert 9 * CONSUMER <= stats.seconds <= whole  # to the last batch, not to the end
    assert 5 * CONSUMER <= stats.wait_seconds <= whole - 5 * CONSUMER
    assert stats.wait_share == pytest.approx(stats.wait_seconds / stats.seconds)
    assert "waiting for data" in loader.describe_bottleneck()


def test_the_bottleneck_is_named_with_the_setting_that_moves_it(split: Split, loader_of: MakeLoader) -> None:
    loader = loader_of(split, "threaded")
    for wait, words in (
        (0.9, "waiting for data 90 %: raise data.threads"),
        (0.001, "the model sets the pace"),
    ):
        loader.stats = LoaderStats()
        loader.stats.count(100, 0.0)
        loader.stats.wait_seconds = wait * loader.stats.seconds
        assert words in loader.describe_bottleneck()


def test_a_sample_that_is_missing_or_seen_twice_makes_an_evaluation_invalid(split: Split) -> None:
    from mptctl.inference.predict import refuse_miscounted

    rows = split.indices("test")
    counts = np.zeros(len(split.manifest), dtype=np.int64)
    counts[rows[:10]] += 1
    with pytest.raises(DataError, match="6 samples not at all and 0 too often"):
        refuse_miscounted(counts, rows)
    counts[rows[10:]] += 1
    refuse_miscounted(counts, rows)
    counts[rows[:1]] += 1
    with pytest.raises(DataError, match="0 samples not at all and 1 too often"):
        refuse_miscounted(counts, rows)


def test_closing_twice_is_safe_and_torch_keeps_its_threads(split: Split, loader_of: MakeLoader) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for kind in KINDS:
            loader = loader_of(split, kind)
            next(iter(loader.epoch(0)))
            loader.close()
            loader.close()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_on_request(split: Split, loader_of: MakeLoader, kind: str) -> None:
    full = loader_of(split, kind, part="test", train=False, batch_size=16)
    halved = make_loader(replace(full.plan, dtype=torch.bfloat16))
    (images,), (expected,) = ([batch.images for batch in each.epoch(0)] for each in (halved, full))
    halved.close()
    assert images.dtype == torch.bfloat16
    torch.testing.assert_close(images.float(), expected, atol=0.02, rtol=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_part_and_an_epoch_that_is_over_give_no_batch(
    split: Split, loader_of: MakeLoader, kind: str
) -> None:
    empty = loader_of(split, kind, part="val", train=False)
    assert (empty.steps_per_epoch, list(empty.epoch(0))) == (0, [])
    loader = loader_of(split, kind)
    assert list(loader.epoch(0, loader.steps_per_epoch)) == []
    assert len(list(loader.epoch(1))) == loader.steps_per_epoch
