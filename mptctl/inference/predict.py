"""From models of ours to their predictions on the test part of the split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.data.loading.choose import make_loader
from mptctl.data.split import Split
from mptctl.errors import CheckpointError, DataError
from mptctl.evaluation.columns import first
from mptctl.evaluation.predictions import Predictions, build_predictions
from mptctl.machine.device import choose_device
from mptctl.models.checkpoint import Checkpoint, load_model
from mptctl.recipe import TRAINING, DataRecipe, keys_of

if TYPE_CHECKING:
    pass


def predict(
    checkpoints: Sequence[Checkpoint],
    split: Split,
    device: str = "auto",
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Predictions]:
    """Logits of models of ours on the whole test part; models that see pictures the same way share one pass.

    Args:
        checkpoints: the models; each sees pictures as its own recipe says, and computes in float32.
        split: whose test part is asked.
        device: where they compute.
        progress: called with (what is under way, pictures done, pictures in all).

    Raises:
        CheckpointError: a model knows classes that the split does not.
        DataError: the split has no test picture, or pictures that are gone or damaged.
        NonFiniteError: logits that are NaN.
    """
    rows = split.indices("test")
    if not len(rows):
        raise DataError("the split has no test picture; add a test part to the data and run split again")
    for checkpoint in checkpoints:
        unknown = [name for name in checkpoint.meta.class_names if name not in set(split.classes.names)]
        if unknown:
            raise CheckpointError(
                f"{checkpoint.path}: knows {len(unknown)} classes that the split does not ({first(unknown)}); "
                "use a model of this split's class names, or run split with these classes"
            )
    groups: dict[DataRecipe, list[int]] = {}
    for i, checkpoint in enumerate(checkpoints):
        groups.setdefault(_evaluation_view(checkpoint.meta.recipe.data), []).append(i)
    logits: dict[int, NDArray[np.float32]] = {}
    for number, (data, members) in enumerate(groups.items()):
        shown = (
            None if progress is None else _PassProgress(progress, number * len(rows), len(groups) * len(rows))
        )
        found = _one_pass([checkpoints[i] for i in members], split, rows, data, choose_device(device), shown)
        logits |= dict(zip(members, found, strict=True))
    ids, labels = split.ids(rows), np.array(split.classes.names, dtype=np.str_)[split.labels[rows]]
    return [
        build_predictions(
            str(checkpoint.path),
            ids,
            labels,
            logits=logits[i],
            classes=checkpoint.meta.class_names,
            origin="checkpoint",
        )
        for i, checkpoint in enumerate(checkpoints)
    ]


def one_model(first: Checkpoint, second: Checkpoint) -> bool:
    """Whether two checkpoints are one model: one file, or equal tensors, class names and view of the pictures."""
    if first.path.resolve() == second.path.resolve():
        return True
    return (
        first.meta.class_names == second.meta.class_names
        and _evaluation_view(first.meta.recipe.data) == _evaluation_view(second.meta.recipe.data)
        and first.model.keys() == second.model.keys()
        and all(torch.equal(tensor, second.model[key]) for key, tensor in first.model.items())
    )


def image_reader(split: Split) -> Callable[[str], NDArray[np.uint8] | None]:
    """A reader of test pictures by sample id, (H, W, 3) uint8; None where there is none that can be read."""
    rows = split.indices("test")
    row_of = dict(zip(split.ids(rows).tolist(), rows.tolist(), strict=True))

    def read(sample: str) -> NDArray[np.uint8] | None:
        try:
            return split.picture(row_of[sample])
        except (KeyError, DataError):
            return None

    return read


@dataclass(frozen=True)
class _PassProgress:
    """Where one pass of several is, for whoever watches them all: ``before`` pictures were seen in earlier ones."""

    progress: Callable[[str, int, int], None]
    before: int
    total: int

    def decoded(self, done: int, total: int) -> None:
        self.progress("decoding pictures", done, total)

    def seen(self, count: int) -> None:
        self.progress("test pictures", self.before + count, self.total)


def _evaluation_view(data: DataRecipe) -> DataRecipe:
    """The recipe without what only training looks at, so that models that see alike are found alike."""
    plain = DataRecipe.model_validate({})
    return data.model_copy(update={key: getattr(plain, key) for key in keys_of("data", TRAINING)})


@torch.inference_mode()
def _one_pass(
    checkpoints: list[Checkpoint],
    split: Split,
    rows: NDArray[np.int64],
    data: DataRecipe,
    device: torch.device,
    shown: _PassProgress | None,
) -> list[NDArray[np.float32]]:
    """Logits (n, C) of each model for the test rows, in their order."""
    models = []
    for checkpoint in checkpoints:
        model = load_model(checkpoint).eval().to(device)
        if checkpoint.meta.recipe.runtime.channels_last:
            model = model.to(memory_format=torch.channels_last)
        models.append(model)
    place = np.full(len(split.manifest), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    logits = [np.empty((len(rows), len(c.meta.class_names)), dtype=np.float32) for c in checkpoints]
    seen = SeenMask(len(split.manifest))
    batch_size = max(checkpoint.meta.recipe.optim.batch_size for checkpoint in checkpoints)
    loader = make_loader(
        split,
        data,
        "test",
        batch_size=batch_size,
        seed=0,
        train=False,
        device=device,
        progress=shown.decoded if shown else None,
    )
    try:
        count = 0
        for batch in loader.epoch(0):
            seen.add(batch.index)
            at = place[batch.index.numpy()]
            for model, out in zip(models, logits, strict=True):
                out[at] = model(batch.images).float().cpu().numpy()
            count += len(at)
            if shown is not None:
                shown.seen(count)
    finally:
        loader.close()
    seen.check(rows)
    return logits


class SeenMask:
    """Counts every sample of an evaluation, so that none is missing and none is there twice."""

    def __init__(self, num_rows: int) -> None:
        """``num_rows``: rows of the manifest."""
        self.counts = torch.zeros(num_rows, dtype=torch.int32)

    def add(self, index: Tensor) -> None:
        """Count the samples of a batch; ``index`` is (B,) int64 on the CPU."""
        self.counts.index_add_(0, index, torch.ones(len(index), dtype=torch.int32))

    def check(self, expected: NDArray[np.int64]) -> None:
        """Compare with the (n,) rows that were to be seen; sum ``counts`` over all workers before.

        Raises:
            DataError: how many are missing or were seen more than once, or did not belong there.
        """
        due = torch.zeros_like(self.counts)
        due[torch.from_numpy(expected)] = 1
        missing = int((self.counts < due).sum())
        extra = int((self.counts > due).sum())
        if missing or extra:
            raise DataError(
                f"evaluation saw {missing} samples not at all and {extra} too often or without need, "
                f"of {len(expected)}; its result is not valid"
            )
