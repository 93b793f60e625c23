"""Mixed and repeated pictures: which batches hold them, the same from every loader, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from mptctl.data.loading.mixed import IGNORED, mix_labels, mix_pictures
from mptctl.data.plan import EpochPlan
from mptctl.data.split import Split
from mptctl.errors import UsageError
from tests.common import KINDS, MakeLoader
from tests.data.loading.test_same_bytes import seen

BOTH = {"mixup": 1.0, "cutmix": 1.0, "mix_probability": 0.8, "image_size": 8, "padding": 1}
ALL = {**BOTH, "sampling": "balanced"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_the_plain_one_mixed_in_pairs(uneven: Split, loader_of: MakeLoader, kind: str) -> None:
    plain = {"image_size": 8, "padding": 1}
    apart = torch.cat([b.images for b in loader_of(uneven, kind, **plain).epoch(1)])
    labels = torch.cat([b.labels for b in loader_of(uneven, kind, **plain).epoch(1)])
    loader = loader_of(uneven, kind, **BOTH)
    images, own, _, others, weight = seen(loader.epoch(1))
    pairs = EpochPlan(3, loader.plan.data).pairs(1, 0, 40)
    assert pairs is not None
    assert torch.equal(images.permute(0, 2, 3, 1), mix_pictures(apart.permute(0, 2, 3, 1), pairs))
    expected, mixing = mix_labels(labels, pairs)
    assert torch.equal(own, expected)
    assert torch.equal(others, mixing.others)
    assert torch.equal(weight, mixing.weight)
    assert {float(w) for w in weight[others == IGNORED]} == {1.0}
    assert (weight < 1).any()
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_all_loaders_bring_the_same_rows_and_copies_see_other_views(
    uneven: Split, loader_of: MakeLoader
) -> None:
    setting = {"image_size": 8, "padding": 2, "sampling": "balanced", "batch_size": 43}
    batches = [next(loader_of(uneven, kind, **setting).epoch(0)) for kind in KINDS]
    for batch in batches[1:]:
        assert batch.index.tolist() == batches[0].index.tolist()
        assert torch.equal(batch.labels, batches[0].labels)
    assert sorted(torch.bincount(batches[0].labels).tolist()) == [14, 14, 15]
    rare = batches[0].index[batches[0].labels == 2]
    views = batches[0].images[batches[0].index == int(rare[0])]
    assert len({view.numpy().tobytes() for view in views}) >= 2


def test_evaluation_neither_mixes_nor_repeats(uneven: Split, loader_of: MakeLoader) -> None:
    loader = loader_of(uneven, KINDS[0], part="test", train=False, batch_size=43, **ALL)
    (batch,) = loader.epoch(0)
    assert batch.mixing is None
    assert batch.index.tolist() == uneven.indices("test").tolist()


def test_parts_of_a_batch_know_their_partners(uneven: Split, loader_of: MakeLoader) -> None:
    batch = next(loader_of(uneven, KINDS[0], batch_size=12, **BOTH).epoch(0))
    parts = batch.split_into(3)
    assert [part.position for part in parts] == [0, 4, 8]
    assert batch.mixing is not None
    for column, values in enumerate(batch.mixing):
        assert torch.equal(torch.cat([part.mixing[column] for part in parts if part.mixing]), values)


@pytest.mark.parametrize(("batch_size", "workers"), [(7, 1), (10, 2), (10, 3)])
def test_pairs_that_a_batch_or_a_worker_would_part_are_refused(
    uneven: Split, loader_of: MakeLoader, batch_size: int, workers: int
) -> None:
    with pytest.raises(UsageError, match=rf"batch_size {batch_size}: .* take a multiple of {2 * workers}$"):
        loader_of(uneven, KINDS[0], batch_size=batch_size, world_size=workers, **BOTH)


def test_a_split_is_read_without_scipy() -> None:
    """Which draws lambda alone, and takes longer to import than all else that reads a split."""
    code = "import sys; import mptctl.data.split; sys.exit('scipy' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
