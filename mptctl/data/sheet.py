"""Training pictures as the model sees them, turned back into bytes for `figure augment`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.mixed import IGNORED
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.recipe import Recipe


@dataclass(frozen=True)
class Sheet:
    """The first n training pictures of an epoch, augmented.

    Attributes:
        pictures: (n, S, S, 3) uint8.
        labels: the weight of each class of a picture, by class name; two classes where pictures are mixed.
    """

    pictures: NDArray[np.uint8]
    labels: list[dict[str, float]]


def make_training_sheet(split: Split, recipe: Recipe, count: int, epoch: int) -> Sheet:
    """Load the first training pictures of an epoch on the CPU, augmented as in training.

    Args:
        split: the split, whose training part is read with all classes.
        recipe: the augmentation; its batch size does not matter, since no picture depends on it.
        count: number of pictures.
        epoch: number of the epoch, from 0.

    Raises:
        UsageError: the training part has fewer pictures, or ``count`` is odd and pictures are mixed in pairs.
    """
    available = len(split.indices("train"))
    if count > available:
        raise UsageError(f"--pictures {count}: the training part has {available}; ask for at most as many")
    if recipe.data.mixes and count % 2:
        raise UsageError(f"--pictures {count}: pictures are mixed in pairs; ask for {count + 1}")
    data = recipe.data.model_copy(update={"loader": "threaded"})  # decodes only these pictures
    plan = LoadPlan(split, data, "train", count, recipe.runtime.seed, True, torch.device("cpu"))
    loader = make_loader(plan)
    try:
        batch = next(iter(loader.epoch(epoch)))
    finally:
        loader.close()
    mean, std = (torch.tensor(value).view(3, 1, 1) for value in (data.mean, data.std))
    levels = (255 * (batch.images * std + mean)).round().clamp(0, 255).to(torch.uint8)
    pictures = levels.permute(0, 2, 3, 1).numpy()
    names = split.classes.names
    if batch.mixing is None:
        return Sheet(pictures, [{names[label]: 1.0} for label in batch.labels.tolist()])
    own_labels = batch.labels.tolist()
    other_labels = batch.mixing.others.tolist()
    labels: list[dict[str, float]] = []
    for own, other, own_weight in zip(own_labels, other_labels, batch.mixing.weight.tolist(), strict=True):
        weights = {own: own_weight, other: 1 - own_weight}
        labels.append({names[label]: weight for label, weight in weights.items() if label != IGNORED})
    return Sheet(pictures, labels)
