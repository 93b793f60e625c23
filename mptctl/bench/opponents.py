"""What a user would take instead of our loaders: a torch DataLoader, and DALI with a reader of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchcodec.decoders import decode_image  # type: ignore[attr-defined]
from torchvision.transforms import v2

from mptctl.data.loading.part import LoadPlan
from mptctl.machine.facts import usable_cores
from mptctl.recipe import DataRecipe

Reader = Literal["torchcodec", "pil"]


class PictureFiles(Dataset[tuple[Tensor, int]]):
    """Picture files with torchvision's transforms, as its documentation shows them.

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


def user_transform(data: DataRecipe, reader: Reader) -> Callable[[Any], Tensor]:
    """torchvision's transforms for a recipe's training pictures."""
    steps: list[Any] = []
    if data.augment == "random-resized-crop":
        steps.append(
            v2.RandomResizedCrop(data.image_size, scale=data.scale, ratio=data.ratio, antialias=True)
        )
    else:
        steps += [v2.Resize(data.image_size, antialias=True), v2.CenterCrop(data.image_size)]
        if data.augment == "pad-crop":
            steps.append(v2.RandomCrop(data.image_size, padding=data.padding))
    if data.flip:
        steps.append(v2.RandomHorizontalFlip())
    if reader == "pil":
        steps.append(v2.PILToTensor())
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(data.mean, data.std)]
    transform: Callable[[Any], Tensor] = v2.Compose(steps)
    return transform


def dataloader_stream(plan: LoadPlan, reader: Reader, workers: int) -> Iterator[Tensor]:
    """Endless batches of a DataLoader whose workers stay; the first ones include their start."""
    manifest, rows = plan.split.manifest, plan.indices.tolist()
    dataset = PictureFiles(
        [manifest.file(i) for i in rows], plan.split.labels[plan.indices].tolist(), plan.data, reader
    )
    # Spawned, because a fork of a process in which DALI runs threads can hang.
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


def readers_file_stream(plan: LoadPlan) -> Iterator[Tensor]:
    """Endless batches of DALI with ``fn.readers.file`` and its own random numbers, as DALI's examples do."""
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
