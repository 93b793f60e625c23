"""A model that `import` takes in: its classes, its pictures, and its error on the validation part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from mpt_kernels.correct import is_top1_correct
from mptctl.data.classes import label_map
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.errors import DataError, NonFiniteError
from mptctl.evaluation.rates import Rate
from mptctl.evaluation.statistics import rate
from mptctl.inference.picture_check import BATCH, BetterWay, Samples, find_better_way
from mptctl.inference.predict import compute_outputs, load_onto
from mptctl.machine.device import choose_device
from mptctl.models.checkpoint import Checkpoint
from mptctl.names import Channels, Session
from mptctl.recipe import DataRecipe
from mptctl.recipe.picture_words import evaluation_words


@dataclass(frozen=True)
class Imported:
    """The model that is taken in.

    Attributes:
        lines: what it is and how well it does, for people.
        error: on the validation pictures of the classes that it knows; None where it could not be validated.
        warning: says that pictures are most likely prepared in a wrong way; None where nothing tells so.
    """

    lines: list[str]
    error: Rate | None
    warning: str | None


def look_at_imported(
    checkpoint: Checkpoint, channels: Channels, split: Split | None, session: Session
) -> Imported:
    """Describe a model from elsewhere, and validate it where there is a split with a validation part.

    The test part is not read.

    Args:
        checkpoint: of the model, which need not be written yet.
        channels: order in which it was said to take channels.
        split: of the session's run root; None where it has none.
        session: where the model computes.

    Raises:
        CheckpointError: it does not take such pictures.
        NonFiniteError: its logits are NaN.
    """
    data = checkpoint.meta.recipe.data
    names = checkpoint.meta.class_names
    lines = [
        f"{len(names)} classes, first {names[0]}, last {names[-1]}",
        f"pictures: {evaluation_words(data)}",
    ]
    if split is None:
        lines.append(f"not validated: no {SPLIT_NAME} in {session.run_root}; run mptctl split SOURCE first")
        return Imported(lines, None, None)
    column_of = label_map(split.classes.names, names)
    # No picture is decoded of classes behind the last one that the model knows.
    num_classes = int(np.flatnonzero(column_of >= 0).max(initial=-1)) + 1
    rows = split.indices("val", num_classes)
    labels = split.labels[rows]
    columns = column_of[labels]
    known = columns >= 0
    if not known.any():
        lines.append(
            "not validated: the split holds out no picture of these classes; run mptctl split with "
            "--val-fraction 0.1"
        )
        return Imported(lines, None, None)
    device = choose_device(session.device)
    network = load_onto(checkpoint, device).eval()
    size = min(BATCH, checkpoint.meta.recipe.optim.batch_size)
    plan = LoadPlan(split, data, "val", size, seed=0, train=False, device=device, num_classes=num_classes)
    try:
        outputs = compute_outputs(
            {"model": checkpoint},
            split,
            session,
            part="val",
            num_classes=num_classes,
            load=lambda checkpoint, device: network,
        )
        if np.isnan(outputs["model"]).any():
            raise NonFiniteError(f"{checkpoint.path}: not written: its logits are NaN; name sound weights")
        samples = Samples(plan, rows[known], columns[known])
        better = find_better_way(network, samples, session.progress)
    except DataError as problem:
        lines.append(f"not validated: {problem}")
        return Imported(lines, None, None)
    right = int(is_top1_correct(torch.from_numpy(outputs["model"]), torch.from_numpy(columns)).sum())
    error = rate(int(known.sum()) - right, int(known.sum()))
    lines.append(
        f"validation error {100 * (error.value or 0.0):.2f} % ({error.count} of {error.of} pictures of the "
        "classes that it knows); too low if these pictures trained it"
    )
    warning = _preparation_warning(error, better, np.bincount(labels[known]).tolist(), data, channels)
    return Imported(lines, error, warning)


def _preparation_warning(
    error: Rate, better: BetterWay | None, counts: list[int], data: DataRecipe, channels: Channels
) -> str | None:
    """The warning that pictures are not prepared as for the model's training; None where nothing tells so.

    Args:
        error: on validation pictures.
        better: a way to prepare them with a clearly lower error.
        counts: validation pictures of each class.
        data: the way that was named.
        channels: the order of channels that was named.
    """
    # With class names in another order, any preparation that makes a model answer at random lowers the error.
    if better is not None and not is_at_chance(better.error, counts):
        was, now = (
            f"{100 * (each.value or 0.0):.2f} % ({each.count} of {each.of})"
            for each in (better.error_before, better.error)
        )
        return (
            f"warning: pictures are most likely not prepared as this model was trained: it errs on {was} as "
            f"it is told, and on {now} with {better.flags(data, channels)}; import it again with that and "
            "--overwrite"
        )
    if not is_at_chance(error, counts):
        return None
    return (
        "warning: no better than always answering one class, which errs on "
        f"{100 * constant_error(counts):.2f} %; most likely the model saw pictures made in another way "
        f"({evaluation_words(data)}; see --set data.image_size, data.eval_resize, data.mean, data.std), or "
        "the class names are not in the order of its logits"
    )


def constant_error(counts: list[int]) -> float:
    """Error of always answering the most frequent class, a fraction.

    Args:
        counts: samples of each class; at least one sample in all.
    """
    return 1.0 - max(counts) / sum(counts)


def is_at_chance(error: Rate, counts: list[int]) -> bool:
    """Tell whether a model is not shown to be better than one that always gives the same answer.

    It is at chance level where the upper end of its error's exact 95 % interval is not below
    `constant_error`. A model without an error never is, however few its samples.

    Args:
        error: of the model, with its interval.
        counts: samples of each class, of those that the error was measured on.
    """
    return error.count > 0 and error.ci95 is not None and error.ci95[1] >= constant_error(counts)
