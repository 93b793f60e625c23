"""Decoding on a GPU: the same plan and, but for the decoder's rounding, the same pictures as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import LOADERS, make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split, make_split
from mptctl.names import Part
from mptctl.recipe import DataRecipe
from tests.common import CPU
from tests.gpu.card import DEVICE, skip_without_card

skip_without_card()
pytestmark = pytest.mark.gpu
pytest.importorskip("nvidia.dali", reason="DALI is not installed")

CROP = {"augment": "random-resized-crop"}
TURNED = {"exif": "apply"}
# Edges of pictures that become smaller are not seen: DALI declines those.
INNER = {"eval_resize": 72}
# No picture for the hardware decoder, which rounds in its own way: who gets which is not in the plan.
SAME_DECODER = {"hw_decoder_load": 0.0}
# nvJPEG's inverse transform and colour conversion round in their own way; its hardware decoder
# interpolates chroma in its own way too. Means over a picture, in grey levels.
MEAN_DIFFERENCE = 3.0


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """48 training and 16 test pictures of many sizes, and of every EXIF orientation."""
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for number in range(64):
        height, width = rng.integers(80, 400, 2).tolist()
        small = rng.integers(0, 256, (height // 20, width // 20, 3), dtype=np.uint8)
        folder = root / ("train" if number < 48 else "val") / f"class{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
        exif = Image.Exif()
        exif[0x0112] = 1 + number % 8
        picture.save(folder / f"{number:03d}.jpg", quality=95, exif=exif)
    return make_split(
        "imagefolder", run_root=tmp_path_factory.mktemp("runs"), data_root=root, val_fraction=0.0
    )


def loader_of(
    split: Split, device: torch.device, kind: str = "dali", train: bool = True, **setting: object
) -> Loader:
    data = DataRecipe.model_validate({"loader": kind, "image_size": 64, "threads": 4, **setting})
    part: Part = "train" if train else "test"
    return make_loader(LoadPlan(split, data, part, batch_size=8, seed=3, train=train, device=device))


def one_epoch(loader: Loader, epoch: int = 1, start: int = 0) -> tuple[Tensor, list[int]]:
    """(n, 3, S, S) normalised pictures and their indices; the loader is closed."""
    batches = list(loader.epoch(epoch, start))
    loader.close()
    return torch.cat([batch.images for batch in batches]), torch.cat(
        [batch.index for batch in batches]
    ).tolist()


@pytest.fixture(params=[True, False], ids=["train", "evaluate"])
def train(request: pytest.FixtureRequest) -> bool:
    """Both kinds of pass."""
    return bool(request.param)


def test_batches_are_on_the_device_and_channels_last(split: Split) -> None:
    loader = loader_of(split, DEVICE, **CROP)
    assert loader.name == ("dali-mixed" if DEVICE.type == "cuda" else "dali-cpu")
    batch = next(iter(loader.epoch(0)))
    assert batch.images.device == DEVICE
    assert batch.labels.device == DEVICE
    assert batch.index.device == torch.device("cpu")
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
    loader.close()


@pytest.mark.parametrize(
    "setting",
    [CROP | INNER, CROP | INNER | TURNED, {"image_size": 400}, TURNED | {"image_size": 400}],
    ids=str,
)
def test_the_gpu_sees_the_pictures_that_the_cpu_sees(
    split: Split, setting: dict[str, object], train: bool
) -> None:
    on_cpu, index = one_epoch(loader_of(split, CPU, "threaded", train, **setting))
    on_gpu, gpu_index = one_epoch(loader_of(split, DEVICE, "dali", train, **setting))
    assert gpu_index == index
    std = torch.tensor(DataRecipe().std).view(1, 3, 1, 1)
    difference = ((on_gpu.cpu() - on_cpu) * std * 255).abs()
    assert difference.mean(dim=(1, 2, 3)).max() < MEAN_DIFFERENCE


def test_samples_are_the_same_bytes_for_other_threads_and_after_resume(split: Split) -> None:
    setting = CROP | SAME_DECODER
    images, index = one_epoch(loader_of(split, DEVICE, **setting))
    again, _ = one_epoch(loader_of(split, DEVICE, threads=1, prefetch=1, **setting))
    assert torch.equal(again, images)
    rest, rest_index = one_epoch(loader_of(split, DEVICE, **setting), start=3)
    assert rest_index == index[24:]
    assert torch.equal(rest, images[24:])


@pytest.mark.parametrize("load", [0.65, 1.0])
def test_what_the_hardware_decoder_changes_is_reported(
    split: Split, load: float, record_property: Callable[[str, object], None]
) -> None:
    """Not held to the bit, but measured: how many pictures differ without it, and from run to run, and how far."""
    images, index = one_epoch(loader_of(split, DEVICE, **CROP, hw_decoder_load=load))
    again, again_index = one_epoch(loader_of(split, DEVICE, **CROP, hw_decoder_load=load, threads=1))
    without, _ = one_epoch(loader_of(split, DEVICE, **CROP, **SAME_DECODER))
    assert again_index == index
    std = torch.tensor(DataRecipe().std, device=DEVICE).view(1, 3, 1, 1)
    for name, other in (("of another run", again), ("without hardware", without)):
        apart = ((images - other) * std * 255).abs().mean(dim=(1, 2, 3))
        record_property(f"pictures that differ from those {name}", int((apart > 0).sum()))
        record_property(f"most grey levels from those {name}", round(float(apart.max()), 3))
        assert apart.max() < MEAN_DIFFERENCE


def test_a_pass_that_is_left_early_does_not_leak_into_the_next(split: Split) -> None:
    loader = loader_of(split, DEVICE, **CROP, **SAME_DECODER)
    first = loader.epoch(0)
    next(first)
    first.close()  # type: ignore[attr-defined]
    images, _ = one_epoch(loader, epoch=1)
    expected, _ = one_epoch(loader_of(split, DEVICE, **CROP, **SAME_DECODER), epoch=1)
    assert torch.equal(images, expected)


def test_a_batch_stays_what_it_was_while_the_next_ones_come(split: Split) -> None:
    loader = loader_of(split, DEVICE, prefetch=1, **CROP)
    kept = [(batch.images, batch.images.clone()) for batch in loader.epoch(0)]
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    assert all(torch.equal(now, then) for now, then in kept)
    loader.close()


@pytest.mark.parametrize("kind", [kind.recipe_name for kind in LOADERS if len(kind.devices) == 2])
def test_the_other_loaders_give_the_same_on_a_gpu_as_on_a_cpu(
    split: Split, kind: str, train: bool, tmp_path: Path
) -> None:
    on_cpu, index = one_epoch(loader_of(split, CPU, kind, train))
    on_gpu, gpu_index = one_epoch(loader_of(split, DEVICE, kind, train))
    assert gpu_index == index
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, atol=1e-6, rtol=1e-6)
