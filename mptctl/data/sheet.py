"""Training pictures as the model sees them, made back into grey levels: for `figure augment`."""

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
    """The first n pictures of an epoch.

    Attributes:
        pictures: (n, S, S, 3).
        labels: n times the weight of each class by its name; two where pictures are mixed.
    """

    pictures: NDArray[np.uint8]
    labels: list[dict[str, float]]


def training_sheet(split: Split, recipe: Recipe, count: int, epoch: int) -> Sheet:
    """Bring the first training pictures of an epoch, on the CPU.

    Args:
        split: its training part is taken, with all classes.
        recipe: says what is done to them; its batch size is not looked at, since no picture depends on it.
        count: of pictures.
        epoch: counted from 0.

    Raises:
        UsageError: the training part has fewer, or pictures are mixed in pairs and the count is odd.
    """
    here = len(split.indices("train"))
    if count > here:
        raise UsageError(f"--pictures {count}: the training part has {here}; ask for at most as many")
    if recipe.data.mixes and count % 2:
        raise UsageError(f"--pictures {count}: pictures are mixed in pairs; ask for {count + 1}")
    data = recipe.data.model_copy(update={"loader": "threaded"})  # which decodes no other picture
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
    columns = (batch.labels, batch.mixing.others, batch.mixing.weight)
    labels = [
        {names[label]: part for label, part in ((own, w), (other, 1 - w)) if label != IGNORED}
        for own, other, w in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return Sheet(pictures, labels)
