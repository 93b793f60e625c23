"""torch's DataLoader with torchvision's transforms, for comparison."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchcodec.decoders import decode_image  # type: ignore[attr-defined]  # not in its __all__
from torchvision.transforms import v2

from mptctl.data.loading.part import LoadPlan
from mptctl.errors import first_line
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


def _files(plan: LoadPlan) -> list[str]:
    """The plan's picture files, one a sample."""
    return [plan.split.manifest.file(row) for row in plan.indices.tolist()]


def why_not_torchcodec(plan: LoadPlan) -> str | None:
    """Decode one file of each suffix; return why torchcodec cannot, or None if it can."""
    for file in {os.path.splitext(file)[1].lower(): file for file in _files(plan)}.values():
        try:
            decode_image(file, mode="RGB")
        except (ValueError, RuntimeError) as error:
            return f"torchcodec cannot decode {file}: {first_line(error).partition('. ')[0]}"
    return None


def dataloader_stream(plan: LoadPlan, reader: Reader, workers: int) -> Iterator[Tensor]:
    """Yield batches of a DataLoader without end; its workers start with the first batch, and stay.

    Args:
        plan: gives the pictures, and how they are augmented.
        reader: ``torchcodec`` for tensors, ``pil`` for pictures of Pillow.
        workers: number of processes.

    Yields:
        (B, 3, S, S) pictures on the plan's device, normalised.
    """
    dataset = PictureFiles(_files(plan), plan.split.labels[plan.indices].tolist(), plan.data, reader)
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
