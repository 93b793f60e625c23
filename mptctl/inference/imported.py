"""Describes and validates a model that `import` brings in, and warns if its pictures are likely wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.data.classes import label_map
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.errors import DataError
from mptctl.evaluation.pairing.confusion import Confusion, exchanged_names_sentence, find_exchanged_names
from mptctl.evaluation.rates import Rate
from mptctl.evaluation.reading.logits import first_maximum
from mptctl.evaluation.statistics import rate
from mptctl.inference.picture_check import BATCH, BetterPreparation, Samples, find_better_preparation
from mptctl.inference.predict import load_onto, run_pass
from mptctl.machine.device import choose_device
from mptctl.models.checkpoint import Checkpoint
from mptctl.models.networks import is_built_for_one_size
from mptctl.models.programs import ONNX
from mptctl.names import Channels, Session
from mptctl.recipe import DataRecipe
from mptctl.recipe.picture_words import describe_evaluation_pictures


def validate_imported(
    checkpoint: Checkpoint, channels: Channels, split: Split | None, session: Session
) -> list[str]:
    """Describe a model from elsewhere, and validate it if the split has validation pictures of its classes.

    The test part is not read. A picture that cannot be read is no error: the model is then not validated.

    Args:
        checkpoint: the model's checkpoint; it need not be a file yet.
        channels: order of channels that the user names.
        split: of the session's run root; None without a split.
        session: device, run root and progress.

    Returns:
        Lines for the user: classes, pictures, and validation error or why there is none; then warnings that
        class names are exchanged, or that pictures are most likely prepared in a wrong way.

    Raises:
        CheckpointError: the model does not take pictures of its recipe.
        NonFiniteError: the model's logits are NaN or infinite.
    """
    data, names = checkpoint.meta.recipe.data, checkpoint.meta.class_names
    lines = [
        f"{len(names)} classes, first {names[0]}, last {names[-1]}",
        f"pictures: {describe_evaluation_pictures(data)}",
    ]
    if split is None:
        return [
            *lines,
            f"not validated: no {SPLIT_NAME} in {session.run_root}; run mptctl split SOURCE first",
        ]
    column_of = label_map(split.classes.names, names)
    # Pictures of classes after the last one that the model knows are not decoded.
    num_classes = int(np.flatnonzero(column_of >= 0).max(initial=-1)) + 1
    labels = split.labels[split.indices("val", num_classes)]
    columns = column_of[labels]
    if not (columns >= 0).any():
        return [
            *lines,
            "not validated: the split holds out no picture of these classes; run mptctl split with "
            "--val-fraction 0.1",
        ]
    try:
        measured = _measure(checkpoint, split, session, num_classes, columns)
    except DataError as problem:
        return [*lines, f"not validated: {problem}"]
    error = measured.error
    lines.append(
        f"validation error {100 * (error.value or 0.0):.2f} % ({error.count} of {error.of} pictures of the "
        "classes that it knows); too low if these pictures trained it"
    )
    exchanged = find_exchanged_names(measured.confusion)
    if exchanged:
        lines.append(f"warning: {exchanged_names_sentence(exchanged, names, 'this model')}")
    counts = np.bincount(labels[columns >= 0]).tolist()
    return [*lines, *_preparation_warning(error, measured.better, counts, data, channels)]


class _Measured(NamedTuple):
    """Figures of a model on validation pictures.

    Attributes:
        error: on them.
        confusion: of its predictions, by columns of its logits.
        better: a preparation of pictures with a clearly lower error; None if none was found.
    """

    error: Rate
    confusion: Confusion
    better: BetterPreparation | None


def _measure(
    checkpoint: Checkpoint, split: Split, session: Session, num_classes: int, columns: NDArray[np.int64]
) -> _Measured:
    """Measure a model's predictions of validation pictures, and search for a better preparation of pictures.

    Args:
        checkpoint: the model.
        split: the pictures.
        session: device and progress.
        num_classes: use only pictures of the split's first so many classes.
        columns: (n,) the true class of each of these pictures, as a column of the logits; -1 for a class that
            the model does not know, whose pictures do not count.

    Raises:
        DataError: a picture is missing or damaged.
        NonFiniteError: logits are NaN or infinite.
    """
    recipe, device = checkpoint.meta.recipe, choose_device(session.device)
    network = load_onto(checkpoint, device).eval()
    plan = LoadPlan(
        split,
        recipe.data,
        "val",
        recipe.optim.batch_size,
        seed=0,
        train=False,
        device=device,
        num_classes=num_classes,
    )
    logits = run_pass({"model": network}, plan, session.progress, "val pictures")["model"]
    predicted = first_maximum(logits, f"{checkpoint.path}: not written")
    is_known = columns >= 0
    right = int((predicted == columns).sum())
    error = rate(int(is_known.sum()) - right, int(is_known.sum()))
    truth = columns[is_known]
    confusion = Confusion(truth, predicted[is_known], np.ones(len(truth), dtype=np.int64))
    samples = Samples(replace(plan, batch_size=min(BATCH, plan.batch_size)), plan.indices[is_known], truth)
    arch = recipe.model.arch
    better = find_better_preparation(
        network,
        samples,
        any_size=arch != ONNX and not is_built_for_one_size(arch),
        progress=session.progress,
    )
    return _Measured(error, confusion, better)


def _preparation_warning(
    error: Rate, better: BetterPreparation | None, counts: list[int], data: DataRecipe, channels: Channels
) -> list[str]:
    """A warning that pictures are not prepared as in the model's training; none without signs of that.

    Args:
        error: of the model on validation pictures.
        better: a preparation with a clearly lower error; None if none was found.
        counts: validation pictures of each class.
        data: the preparation that the user names.
        channels: the order of channels that the user names.
    """
    # If class names are in a wrong order, even a preparation that makes predictions random lowers the error.
    if better is not None and not is_at_chance(better.error, counts):
        before, after = _error_words(better.error_before), _error_words(better.error)
        return [
            f"warning: pictures are most likely not prepared as this model was trained: it errs on {before} "
            f"with these settings, and on {after} with {better.flags(data, channels)}; import it again with "
            "that and --overwrite"
        ]
    if not is_at_chance(error, counts):
        return []
    if error.count < sum(counts) - max(counts):
        found, cause = "not shown to be better", "too few validation pictures, or"
    else:
        found, cause = "no better", "most likely"
    return [
        f"warning: {found} than always answering one class, which errs on "
        f"{100 * constant_error(counts):.2f} %: {cause} the model saw pictures made in another way "
        f"({describe_evaluation_pictures(data)}; see --size, and --set data.eval_resize, data.mean, "
        "data.std), or the class names are not in the order of its logits"
    ]


def _error_words(error: Rate) -> str:
    """An error in percent, with its counts."""
    return f"{100 * (error.value or 0.0):.2f} % ({error.count} of {error.of})"


def constant_error(counts: list[int]) -> float:
    """Error of always predicting the most frequent class, a fraction.

    Args:
        counts: samples of each class; at least one sample in all.
    """
    return 1.0 - max(counts) / sum(counts)


def is_at_chance(error: Rate, counts: list[int]) -> bool:
    """Tell whether a model may be no better than one that always predicts the same class.

    True if the upper end of the error's exact 95 % interval is at least `constant_error`. False for a model
    without a wrong prediction, however few its samples.

    Args:
        error: of the model, with its interval.
        counts: number of these samples in each class.
    """
    return error.count > 0 and error.ci95 is not None and error.ci95[1] >= constant_error(counts)
