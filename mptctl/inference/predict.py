"""Computes predictions and features of checkpoints on one part of a split."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
from mptctl.machine.device import choose_device, move_to_device
from mptctl.models.checkpoint import Checkpoint, load_model
from mptctl.models.heads import find_classifier
from mptctl.names import Part, Progress, Session
from mptctl.recipe import TRAINING, DataRecipe, list_marked_data_keys


def predict(
    checkpoints: Mapping[str, Checkpoint],
    split: Split,
    session: Session = Session(),
    *,
    part: Part,
    renamed: frozenset[str] = frozenset(),
) -> dict[str, Predictions]:
    """Predict one whole part of a split with each checkpoint, in float32.

    Checkpoints whose recipes prepare pictures in the same way share one pass over the pictures.

    Args:
        checkpoints: by role.
        split: the pictures and their classes.
        session: device and progress.
        part: part of the split; pictures of other parts are not read.
        renamed: class names of checkpoints that the split need not know.

    Returns:
        Predictions with logits, by role.

    Raises:
        CheckpointError: a checkpoint knows classes that the split does not.
        DataError: the part has no picture, or a picture is missing or damaged.
        NonFiniteError: logits are NaN.
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
    """Rebuild a checkpoint's model on a device, in the memory format of its recipe."""
    return move_to_device(
        load_model(checkpoint), device, channels_last=checkpoint.meta.recipe.runtime.channels_last
    )


def compute_outputs(
    checkpoints: Mapping[str, Checkpoint],
    split: Split,
    session: Session,
    *,
    part: Part,
    load: Callable[[Checkpoint, torch.device], nn.Module] = load_onto,
    renamed: frozenset[str] = frozenset(),
) -> dict[str, NDArray[np.float32]]:
    """Compute the outputs of networks for one whole part of a split.

    Args:
        checkpoints, split, session, part, renamed: as for `predict`.
        load: makes a checkpoint's network on a device; by default the model, whose outputs are logits.

    Returns:
        (n, width) by role, in the order of the split's rows.

    Raises:
        CheckpointError, DataError: as `predict`.
    """
    rows = split.indices(part)
    if not len(rows):
        advice = "add a test part to the data and run split" if part == "test" else "run split --val-fraction"
        raise DataError(f"the split has no {part} picture; {advice} again")
    for checkpoint in checkpoints.values():
        _refuse_unknown_classes(checkpoint, split, renamed)
    groups: dict[DataRecipe, dict[str, Checkpoint]] = {}
    for role, checkpoint in checkpoints.items():
        groups.setdefault(_evaluation_settings(checkpoint.meta.recipe.data), {})[role] = checkpoint
    outputs: dict[str, NDArray[np.float32]] = {}
    for number, (data, members) in enumerate(groups.items()):
        device = choose_device(session.device)
        networks = {role: load(checkpoint, device) for role, checkpoint in members.items()}
        batch_size = max(checkpoint.meta.recipe.optim.batch_size for checkpoint in members.values())
        plan = LoadPlan(split, data, part, batch_size, seed=0, train=False, device=device)
        outputs |= run_pass(
            networks, plan, session.progress, f"{part} pictures", number * len(rows), len(groups) * len(rows)
        )
    return outputs


def compute_features(
    checkpoints: Mapping[str, Checkpoint], split: Split, session: Session, *, part: Part = "test"
) -> dict[str, NDArray[np.float32]]:
    """Compute features, the inputs of models' last layers, for one whole part of a split.

    Args:
        checkpoints, split, session, part: as for `predict`.

    Returns:
        (n, D) by role, in the order of the split's rows.

    Raises:
        CheckpointError, DataError: as `predict`.
        NonFiniteError: features are NaN or infinite.
    """
    features = compute_outputs(checkpoints, split, session, part=part, load=_load_without_classifier)
    for role, checkpoint in checkpoints.items():
        if not np.isfinite(features[role]).all():
            raise NonFiniteError(
                f"{checkpoint.path}: its features are not finite; train it with a lower optim.lr"
            )
    return features


def _load_without_classifier(checkpoint: Checkpoint, device: torch.device) -> nn.Module:
    """Rebuild a checkpoint's model on a device, with the identity in place of its classifier."""
    model = load_onto(checkpoint, device)
    model.set_submodule(find_classifier(model, checkpoint.meta.recipe.model.arch).name, nn.Identity())
    return model


def is_same_model(first: Checkpoint, second: Checkpoint) -> bool:
    """Tell whether two checkpoints are the same file, or equal in tensors, classes and preparation."""
    if first.path.resolve() == second.path.resolve():
        return True
    return (
        first.meta.class_names == second.meta.class_names
        and _evaluation_settings(first.meta.recipe.data) == _evaluation_settings(second.meta.recipe.data)
        and first.model.keys() == second.model.keys()
        and all(torch.equal(tensor, second.model[key]) for key, tensor in first.model.items())
    )


def make_test_picture_reader(split: Split) -> Callable[[str], NDArray[np.uint8] | None]:
    """Make a function that reads test pictures by sample id: (H, W, 3) uint8, or None if unreadable."""
    rows = split.indices("test")
    row_of = dict(zip(split.ids(rows).tolist(), rows.tolist(), strict=True))

    def read(sample: str) -> NDArray[np.uint8] | None:
        try:
            return split.picture(row_of[sample])
        except (KeyError, DataError):
            return None

    return read


def _refuse_unknown_classes(checkpoint: Checkpoint, split: Split, renamed: frozenset[str]) -> None:
    """Raise CheckpointError if a checkpoint knows classes that are neither the split's nor in ``renamed``."""
    known = renamed.union(split.classes.names)
    unknown = [name for name in checkpoint.meta.class_names if name not in known]
    if unknown:
        raise CheckpointError(
            f"{checkpoint.path}: knows {len(unknown)} classes that the split does not ({first(unknown)}); "
            "use a model of this split's class names, or run split with these classes"
        )


def _evaluation_settings(data: DataRecipe) -> DataRecipe:
    """Copy a recipe with training-only keys at their defaults; copies are equal if evaluation is the same."""
    defaults = DataRecipe.model_validate({})
    return data.model_copy(update={key: getattr(defaults, key) for key in list_marked_data_keys(TRAINING)})


def run_pass(
    networks: Mapping[str, nn.Module],
    plan: LoadPlan,
    progress: Progress,
    what: str,
    before: int = 0,
    total: int | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Compute outputs (n, width) of each network for the plan's rows, in their order.

    Args:
        networks: by name, in evaluation mode, on the plan's device.
        plan: of the pictures.
        progress: called with the number of pictures done.
        what: text for ``progress``.
        before, total: pictures of earlier passes, and of all passes; None: those of this one.

    Raises:
        DataError: a picture is missing or damaged, or the loader missed or repeated a sample.
    """
    rows, pictures = plan.indices, len(plan.split.manifest)
    outputs: dict[str, NDArray[np.float32]] = {}
    position_of_row = np.full(pictures, -1, dtype=np.int64)
    position_of_row[rows] = np.arange(len(rows))
    counts = np.zeros(pictures, dtype=np.int64)
    loader = make_loader(plan, progress=progress)
    try:
        done = 0
        for batch, batch_outputs in forward(list(networks.values()), loader):
            index = batch.index.numpy()
            np.add.at(counts, index, 1)
            positions = position_of_row[index]
            for role, output in zip(networks, batch_outputs, strict=True):
                if role not in outputs:
                    outputs[role] = np.empty((len(rows), output.shape[1]), dtype=np.float32)
                outputs[role][positions] = output.cpu().numpy()
            done += len(index)
            progress(what, before + done, total or len(rows))
    finally:
        loader.close()
    refuse_miscounted(counts, rows)
    return outputs


def refuse_miscounted(counts: NDArray[np.int64], expected: NDArray[np.int64]) -> None:
    """Refuse an evaluation that did not see each expected sample exactly once, and no other.

    Args:
        counts: (M,) how often each row of the manifest was seen, over all workers.
        expected: (n,) rows to be seen once.

    Raises:
        DataError: samples are missing, repeated, or not expected; the message has their numbers.
    """
    excess = counts - np.bincount(expected, minlength=len(counts))
    if excess.any():
        raise DataError(
            f"evaluation saw {(excess < 0).sum()} samples not at all and {(excess > 0).sum()} too often or "
            f"without need, of {len(expected)}; its result is not valid"
        )
