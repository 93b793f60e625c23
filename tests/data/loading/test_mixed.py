"""Mixed and repeated pictures: the same from every loader, whatever batch, workers and place of resume."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.mixed import IGNORED, mix_labels, mix_pictures
from mptctl.data.plan import EpochPlan
from mptctl.data.split import Split, make_split
from mptctl.errors import UsageError
from tests.common import KINDS, MakeLoader, smooth_picture

BOTH = {"mixup": 1.0, "cutmix": 1.0, "mix_probability": 0.8, "image_size": 8, "padding": 1}
ALL = {**BOTH, "sampling": "balanced"}


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """41 training pictures of three classes: 26, 12 and 3."""
    root = tmp_path_factory.mktemp("uneven")
    number = 0
    for label, count in enumerate((26, 12, 3)):
        for part in ("train", "val"):
            (root / part / f"class{label}").mkdir(parents=True)
        for part in ("train",) * count + ("val",):
            number += 1
            smooth_picture(12, 10, number).save(root / part / f"class{label}" / f"{number:03d}.jpg")
    return make_split(
        "imagefolder", run_root=tmp_path_factory.mktemp("runs"), data_root=root, val_fraction=0.0
    )


def seen(loader: Loader, epoch: int = 1, start: int = 0) -> tuple[Tensor, ...]:
    """Pictures, both labels and the weights of a pass."""
    batches = list(loader.epoch(epoch, start))
    mixing = [batch.mixing for batch in batches if batch.mixing is not None]
    assert len(mixing) == len(batches)
    columns = ([b.images for b in batches], [b.labels for b in batches], [m.others for m in mixing])
    return (*map(torch.cat, columns), torch.cat([m.weight for m in mixing]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_the_plain_one_mixed_in_pairs(uneven: Split, loader_of: MakeLoader, kind: str) -> None:
    plain = {"image_size": 8, "padding": 1}
    apart = torch.cat([b.images for b in loader_of(uneven, kind, **plain).epoch(1)])
    labels = torch.cat([b.labels for b in loader_of(uneven, kind, **plain).epoch(1)])
    images, own, others, weight = seen(loader_of(uneven, kind, **BOTH))
    loader = loader_of(uneven, kind, **BOTH)
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


@pytest.mark.parametrize("kind", KINDS)
def test_other_batch_sizes_threads_and_places_of_resume_see_the_same(
    uneven: Split, loader_of: MakeLoader, kind: str
) -> None:
    whole = seen(loader_of(uneven, kind, batch_size=8, **ALL))
    for change in ({"batch_size": 2}, {"batch_size": 20, "threads": 1, "prefetch": 1}, {"threads": 5}):
        for mine, theirs in zip(whole, seen(loader_of(uneven, kind, **ALL | change)), strict=True):
            assert torch.equal(mine, theirs)
    for start in (2, 4):
        rest = seen(loader_of(uneven, kind, batch_size=8, **ALL), start=start)
        assert all(torch.equal(one[8 * start :], other) for one, other in zip(whole, rest, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_workers_see_what_one_sees(uneven: Split, loader_of: MakeLoader, kind: str) -> None:
    for workers, batch_size in ((2, 8), (3, 12)):
        one = [*loader_of(uneven, kind, batch_size=batch_size, **ALL).epoch(2)]
        shares = [
            [*loader_of(uneven, kind, batch_size=batch_size, rank=rank, world_size=workers, **ALL).epoch(2)]
            for rank in range(workers)
        ]
        for step, whole in enumerate(one):
            parts = [share[step] for share in shares]
            assert whole.mixing is not None
            assert torch.equal(torch.cat([part.images for part in parts]), whole.images)
            assert torch.equal(torch.cat([part.labels for part in parts]), whole.labels)
            for column, values in enumerate(whole.mixing):
                assert torch.equal(torch.cat([part.mixing[column] for part in parts if part.mixing]), values)


def test_all_loaders_bring_the_same_rows_and_copies_see_other_views(
    uneven: Split, loader_of: MakeLoader
) -> None:
    setting = {"image_size": 8, "padding": 2, "sampling": "balanced", "batch_size": 41}
    batches = [next(loader_of(uneven, kind, **setting).epoch(0)) for kind in KINDS]
    for batch in batches[1:]:
        assert batch.index.tolist() == batches[0].index.tolist()
        assert torch.equal(batch.labels, batches[0].labels)
    assert sorted(torch.bincount(batches[0].labels).tolist()) == [13, 14, 14]
    rare = batches[0].index[batches[0].labels == 2]
    views = batches[0].images[batches[0].index == int(rare[0])]
    assert len(views) >= 4
    assert len({view.numpy().tobytes() for view in views}) >= 4


def test_evaluation_neither_mixes_nor_repeats(uneven: Split, loader_of: MakeLoader) -> None:
    loader = loader_of(uneven, KINDS[0], part="test", train=False, batch_size=3, **ALL)
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
