"""Loaders of other libraries, for comparison: torch's DataLoader, webdataset, and DALI's file reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchcodec.decoders import decode_image  # type: ignore[attr-defined]  # not in its __all__
from torchvision.transforms import v2

from mptctl.data.loading.part import LoadPlan
from mptctl.data.loading.resident import load_resident_pictures
from mptctl.machine.facts import usable_cores
from mptctl.recipe import DataRecipe
from mptctl.recipe.transforms import Grayscale, RandAugment, RandomErasing, Step, TrivialAugment

Reader = Literal["torchcodec", "pil"]


class PictureFiles(Dataset[tuple[Tensor, int]]):
    """A dataset of picture files with torchvision's transforms, as torchvision's documentation shows it.

    Args:
        paths: one file a sample.
        labels: one label a sample.
        data: picture size, augmentation and normalisation.
        reader: ``torchcodec`` decodes to a tensor, ``pil`` to a Pillow picture.
    """

    def __init__(self, paths: Sequence[str], labels: Sequence[int], data: DataRecipe, reader: Reader) -> None:
        self.paths, self.labels, self.reader = list(paths), list(labels), reader
        self.transform = user_transform(data, reader)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        if self.reader == "pil":
            with Image.open(self.paths[row]) as image:
                return self.transform(image.convert("RGB")), self.labels[row]
        return self.transform(decode_image(self.paths[row], mode="RGB")), self.labels[row]


class PicturesInMemory(Dataset[tuple[Tensor, int]]):
    """A dataset of decoded pictures, (n, S, S, 3) uint8; the other arguments are those of `PictureFiles`."""

    def __init__(
        self, pictures: NDArray[np.uint8], labels: Sequence[int], data: DataRecipe, reader: Reader
    ) -> None:
        self.pictures, self.labels, self.reader = pictures, list(labels), reader
        self.transform = user_transform(data, reader)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        picture = self.pictures[row]
        if self.reader == "pil":
            return self.transform(Image.fromarray(picture)), self.labels[row]
        return self.transform(torch.from_numpy(picture).permute(2, 0, 1)), self.labels[row]


def user_transform(data: DataRecipe, reader: Reader) -> Callable[[Any], Tensor]:
    """Compose torchvision's transforms as a recipe augments training pictures."""
    steps: list[Any] = []
    how = {"interpolation": v2.InterpolationMode(data.interpolation), "antialias": True}
    if data.augment == "random-resized-crop":
        steps.append(v2.RandomResizedCrop(data.image_size, scale=data.scale, ratio=data.ratio, **how))
    else:
        steps += [v2.Resize(data.image_size, **how), v2.CenterCrop(data.image_size)]
        if data.augment == "pad-crop":
            steps.append(v2.RandomCrop(data.image_size, padding=data.padding))
    if data.flip:
        steps.append(v2.RandomHorizontalFlip())
    # torchvision erases rectangles of normalised tensors, so after all other steps.
    steps += [_to_torchvision(step) for step in data.transforms if not isinstance(step, RandomErasing)]
    if reader == "pil":
        steps.append(v2.PILToTensor())
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(data.mean, data.std)]
    steps += [_to_torchvision(step) for step in data.transforms if isinstance(step, RandomErasing)]
    transform: Callable[[Any], Tensor] = v2.Compose(steps)
    return transform


def _to_torchvision(step: Step) -> Any:
    """Return torchvision's transform for a step of the recipe's ``data.transforms``."""
    settings = step.model_dump(exclude={"name"})
    if "interpolation" in settings:
        settings["interpolation"] = v2.InterpolationMode(settings["interpolation"])
    match step:
        case RandAugment():
            return v2.RandAugment(**settings)
        case TrivialAugment():
            return v2.TrivialAugmentWide(**settings)
        case Grayscale():
            return v2.RandomGrayscale(**settings)
        case RandomErasing():
            return v2.RandomErasing(**settings | {"value": "random" if step.value is None else step.value})
    p = settings.pop("p")
    kinds = {"color-jitter": v2.ColorJitter, "gaussian-blur": v2.GaussianBlur, "rotation": v2.RandomRotation}
    return v2.RandomApply([kinds[step.name](**settings)], p)


def dataloader_stream(
    plan: LoadPlan, reader: Reader, workers: int, cache_dir: Path | None
) -> Iterator[Tensor]:
    """Yield batches of a DataLoader without end; its workers start with the first batch, and stay.

    Args:
        plan: gives the pictures, and how they are augmented.
        reader: ``torchcodec`` for tensors, ``pil`` for pictures of Pillow.
        workers: number of processes.
        cache_dir: folder of decoded pictures, which are then read from memory; None: pictures are read from
            their files.

    Yields:
        (B, 3, S, S) pictures on the plan's device, normalised.
    """
    manifest, labels = plan.split.manifest, plan.split.labels[plan.indices].tolist()
    dataset: Dataset[tuple[Tensor, int]]
    if cache_dir is not None:
        dataset = PicturesInMemory(load_resident_pictures(plan, cache_dir), labels, plan.data, reader)
    else:
        dataset = PictureFiles([manifest.file(i) for i in plan.indices.tolist()], labels, plan.data, reader)
    # Spawned, because forking a process in which DALI runs threads can hang.
    loader = DataLoader(
        dataset,
        plan.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=True,
        pin_memory=plan.device.type == "cuda",
        multiprocessing_context="spawn",
    )
    while True:
        for images, _ in loader:
            yield images.to(plan.device, non_blocking=True)


def webdataset_stream(plan: LoadPlan, workers: int) -> Iterator[Tensor]:
    """Yield batches of the library webdataset with Pillow without end, as its README shows it.

    Args:
        plan: of pictures in shards.
        workers: number of processes; each draws from all shards.

    Yields:
        (B, 3, S, S) pictures on the plan's device, normalised.
    """
    import webdataset

    manifest = plan.split.manifest
    shards = [f"{manifest.root}/{shard}" for shard in manifest.shards]
    dataset = webdataset.WebDataset(shards, resampled=True, shardshuffle=False)
    samples = dataset.shuffle(1000).decode("pilrgb").to_tuple("jpg;jpeg;png;webp", "cls")
    batches = samples.map_tuple(user_transform(plan.data, "pil")).batched(plan.batch_size)
    loader = webdataset.WebLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        pin_memory=plan.device.type == "cuda",
        multiprocessing_context="spawn",
    )
    for images, _ in loader:
        yield images.to(plan.device, non_blocking=True)


def readers_file_stream(plan: LoadPlan) -> Iterator[Tensor]:
    """Yield batches of DALI without end, with ``fn.readers.file`` and DALI's own random numbers.

    Args:
        plan: gives the pictures, and how they are augmented.

    Yields:
        (B, 3, S, S) pictures on the plan's device, normalised.
    """
    from nvidia.dali import Pipeline, fn
    from nvidia.dali.plugin.pytorch.torch_utils import to_torch_tensor

    manifest, data, on_gpu = plan.split.manifest, plan.data, plan.device.type == "cuda"
    device = "mixed" if on_gpu else "cpu"
    pipeline = Pipeline(
        batch_size=plan.batch_size,
        num_threads=data.threads or usable_cores(),
        device_id=(plan.device.index or 0) if on_gpu else None,
        prefetch_queue_depth=data.prefetch,
        seed=1,
    )
    with pipeline:
        files = [manifest.file(i) for i in plan.indices.tolist()]
        encoded, _ = fn.readers.file(files=files, random_shuffle=True, initial_fill=1024, name="reader")
        if plan.crops_as_stored:
            pictures = fn.decoders.image_random_crop(
                encoded, device=device, random_area=list(data.scale), random_aspect_ratio=list(data.ratio)
            )
        else:
            pictures = fn.decoders.image(encoded, device=device)
        pictures = fn.resize(pictures, size=[data.image_size, data.image_size], antialias=True)
        pictures = fn.crop_mirror_normalize(
            pictures,
            mirror=fn.random.coin_flip(),
            mean=[255 * value for value in data.mean],
            std=[255 * value for value in data.std],
            output_layout="HWC",
        )
        pipeline.set_outputs(pictures)
    pipeline.build()
    while True:
        (batch,) = pipeline.run()
        images: Tensor = to_torch_tensor(batch.as_tensor(), copy=False)  # as DALI's own iterators do
        yield images.permute(0, 3, 1, 2)
