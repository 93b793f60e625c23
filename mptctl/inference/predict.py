"""From models of ours to their predictions on one part of the split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split
from mptctl.errors import CheckpointError, DataError, NonFiniteError
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.predictions import Predictions, build_predictions
from mptctl.inference.forward import forward
from mptctl.machine.device import choose_device, place
from mptctl.models.checkpoint import Checkpoint, load_model
from mptctl.models.heads import find_classifier
from mptctl.names import Part, Progress, Session
from mptctl.recipe import TRAINING, DataRecipe, keys_of


def predict(
    checkpoints: Mapping[str, Checkpoint],
    split: Split,
    session: Session = Session(),
    *,
    part: Part,
    renamed: frozenset[str] = frozenset(),
) -> dict[str, Predictions]:
    """Logits of models of ours on one whole part; models that see pictures the same way share one pass.

    Args:
        checkpoints: the models by role; each sees pictures as its own recipe says, and computes in float32.
        split: whose pictures are asked.
        session: where they compute, and who is told how far they are.
        part: which of them; pictures of other parts are not read.
        renamed: class names that the split need not know.

    Raises:
        CheckpointError: a model knows classes that the split does not.
        DataError: the split has no picture of that part, or pictures that are gone or damaged.
        NonFiniteError: logits that are NaN.
    """
    rows = split.indices(part)
    logits = compute_outputs(checkpoints, split, session, part=part, renamed=renamed)
    ids, labels = split.ids(rows), np.array(split.classes.names, dtype=np.str_)[split.labels[rows]]
    return {
        role: build_predictions(
            str(checkpoint.path),
            ids,
            labels,
            logits=logits[role],
            classes=checkpoint.meta.class_names,
            origin="checkpoint",
        )
        for role, checkpoint in checkpoints.items()
    }


def load_onto(checkpoint: Checkpoint, device: torch.device) -> nn.Module:
    """The model of a checkpoint on a device, in the memory format of its recipe."""
    return place(load_model(checkpoint), device, channels_last=checkpoint.meta.recipe.runtime.channels_last)


def compute_outputs(
    checkpoints: Mapping[str, Checkpoint],
    split: Split,
    session: Session,
    *,
    part: Part,
    num_classes: int | None = None,
    load: Callable[[Checkpoint, torch.device], nn.Module] = load_onto,
    renamed: frozenset[str] = frozenset(),
) -> dict[str, NDArray[np.float32]]:
    """The outputs of networks for one whole part, (n, width) by role, in the order of the split's rows.

    Args:
        checkpoints, split, session, part, renamed: as for `predict`.
        num_classes: only pictures of the split's first so many classes are asked; None: all.
        load: makes the network of a checkpoint on a device; by default the model, whose outputs are logits.

    Raises:
        CheckpointError, DataError: as `predict`.
    """
    rows = split.indices(part, num_classes)
    if not len(rows):
        advice = "add a test part to the data and run split" if part == "test" else "run split --val-fraction"
        raise DataError(f"the split has no {part} picture; {advice} again")
    for checkpoint in checkpoints.values():
        _refuse_unknown_classes(checkpoint, split, renamed)
    groups: dict[DataRecipe, dict[str, Checkpoint]] = {}
    for role, checkpoint in checkpoints.items():
        groups.setdefault(_evaluation_view(checkpoint.meta.recipe.data), {})[role] = checkpoint
    outputs: dict[str, NDArray[np.float32]] = {}
    for number, (data, members) in enumerate(groups.items()):
        shown = _PassProgress(session.progress, part, number * len(rows), len(groups) * len(rows))
        where = choose_device(session.device)
        networks = {role: load(checkpoint, where) for role, checkpoint in members.items()}
        batch_size = max(checkpoint.meta.recipe.optim.batch_size for checkpoint in members.values())
        plan = LoadPlan(
            split, data, part, batch_size, seed=0, train=False, device=where, num_classes=num_classes
        )
        outputs |= _one_pass(networks, plan, shown)
    return outputs


def compute_features(
    checkpoints: Mapping[str, Checkpoint], split: Split, session: Session, *, part: Part = "test"
) -> dict[str, NDArray[np.float32]]:
    """The inputs of models' last layers for one whole part, (n, D) by role, in the order of the split's rows.

    Args:
        checkpoints, split, session, part: as for `predict`.

    Raises:
        CheckpointError, DataError: as `predict`.
        NonFiniteError: features that are NaN or infinite.
    """
    features = compute_outputs(checkpoints, split, session, part=part, load=_load_without_classifier)
    for role, checkpoint in checkpoints.items():
        if not np.isfinite(features[role]).all():
            raise NonFiniteError(
                f"{checkpoint.path}: its features are not finite; train it with a lower optim.lr"
            )
    return features


def _load_without_classifier(checkpoint: Checkpoint, device: torch.device) -> nn.Module:
    model = load_onto(checkpoint, device)
    model.set_submodule(find_classifier(model, checkpoint.meta.recipe.model.arch).name, nn.Identity())
    return model


def one_model(first: Checkpoint, second: Checkpoint) -> bool:
    """Tell whether two checkpoints are one model: one file, or equal tensors, classes and pictures."""
    if first.path.resolve() == second.path.resolve():
        return True
    return (
        first.meta.class_names == second.meta.class_names
        and _evaluation_view(first.meta.recipe.data) == _evaluation_view(second.meta.recipe.data)
        and first.model.keys() == second.model.keys()
        and all(torch.equal(tensor, second.model[key]) for key, tensor in first.model.items())
    )


def image_reader(split: Split, *, part: Part) -> Callable[[str], NDArray[np.uint8] | None]:
    """A reader of a part's pictures by sample id, (H, W, 3) uint8; it gives None where none can be read."""
    rows = split.indices(part)
    row_of = dict(zip(split.ids(rows).tolist(), rows.tolist(), strict=True))

    def read(sample: str) -> NDArray[np.uint8] | None:
        try:
            return split.picture(row_of[sample])
        except (KeyError, DataError):
            return None

    return read


@dataclass(frozen=True)
class _PassProgress:
    """The progress of a pass among several: ``before`` pictures were seen in earlier ones."""

    progress: Progress
    part: Part
    before: int
    total: int

    def seen(self, count: int) -> None:
        self.progress(f"{self.part} pictures", self.before + count, self.total)


def _refuse_unknown_classes(checkpoint: Checkpoint, split: Split, renamed: frozenset[str]) -> None:
    known = renamed.union(split.classes.names)
    unknown = [name for name in checkpoint.meta.class_names if name not in known]
    if unknown:
        raise CheckpointError(
            f"{checkpoint.path}: knows {len(unknown)} classes that the split does not ({first(unknown)}); "
            "use a model of this split's class names, or run split with these classes"
        )


def _evaluation_view(data: DataRecipe) -> DataRecipe:
    """The recipe without what only training looks at, so that models that see alike are found alike."""
    plain = DataRecipe.model_validate({})
    return data.model_copy(update={key: getattr(plain, key) for key in keys_of("data", TRAINING)})


def _one_pass(
    networks: Mapping[str, nn.Module], plan: LoadPlan, shown: _PassProgress
) -> dict[str, NDArray[np.float32]]:
    """Outputs (n, width) of each network for the plan's rows, in their order."""
    rows, pictures = plan.indices, len(plan.split.manifest)
    outputs: dict[str, NDArray[np.float32]] = {}
    place = np.full(pictures, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    counts = np.zeros(pictures, dtype=np.int64)
    loader = make_loader(plan, progress=shown.progress)
    try:
        count = 0
        for batch, found in forward(list(networks.values()), loader):
            index = batch.index.numpy()
            np.add.at(counts, index, 1)
            at = place[index]
            for role, output in zip(networks, found, strict=True):
                if role not in outputs:
                    outputs[role] = np.empty((len(rows), output.shape[1]), dtype=np.float32)
                outputs[role][at] = output.cpu().numpy()
            count += len(at)
            shown.seen(count)
    finally:
        loader.close()
    refuse_miscounted(counts, rows)
    return outputs


def refuse_miscounted(counts: NDArray[np.int64], expected: NDArray[np.int64]) -> None:
    """Refuse an evaluation that missed a sample or saw one twice.

    Args:
        counts: (M,) how often each row of the manifest was seen, over all workers.
        expected: (n,) rows that were to be seen once.

    Raises:
        DataError: how many are missing or were seen more than once, or did not belong there.
    """
    off = counts - np.bincount(expected, minlength=len(counts))
    if off.any():
        raise DataError(
            f"evaluation saw {(off < 0).sum()} samples not at all and {(off > 0).sum()} too often or without "
            f"need, of {len(expected)}; its result is not valid"
        )
