"""The predictions of a run on the validation and the test part (answers), and the small file of them."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mptctl.data.split_file import SplitRequest
from mptctl.errors import CheckpointError, one_line
from mptctl.evaluation.paired_bootstrap import WrongByBias
from mptctl.files import Model, write_atomically
from mptctl.names import Part
from mptctl.recipe import Recipe, list_changeable_keys, load_recipe
from mptctl.studies.training_cost import RunWork

ANSWERS_NAME = "answers.npz"
SCHEMA_VERSION = 2
# The parts in the file, and the arrays of each.
PARTS: tuple[Part, ...] = ("val", "test")
ARRAYS = ("index", "label", "old_answer", "new_answer", "old_logit", "gap", "confidence")
# The smallest positive number of half precision: the least gap of a prediction that is a new class.
LEAST = np.float16(2.0**-24)
# Keys of a recipe's runtime that change a run by more than rounding: with another value it is another row.
MORE_THAN_ROUNDING = ("precision", "teacher_precision", "sync_batchnorm")


class KeptCalibration(Model):
    """The calibration of a model, on test samples of the classes that it knows; errors are fractions."""

    n: int = Field(description="of these samples")
    accuracy: float = Field(description="right predictions / n")
    ece: float = Field(description="expected calibration error, 15 bins of equal width")
    aece: float = Field(description="adaptive calibration error, 15 bins of equal count")
    temperature: float | None = Field(description="fitted on the validation part; null without a temperature")
    scaled_ece: float | None = Field(description="`ece` with that temperature")
    scaled_aece: float | None = Field(description="`aece` with that temperature")


class AnswersHead(Model):
    """The head of a file of answers: of which model, to which split."""

    schema_version: int = Field(SCHEMA_VERSION, description="of this file")
    digest: str = Field(description="of the checkpoint that answered")
    teachers: dict[str, str] = Field(description="role to digest of each teacher's checkpoint")
    class_names: tuple[str, ...] = Field(description="of the split, old ones first")
    num_old: int = Field(description="how many of them are old")
    num_known: int = Field(description="how many of them the model knows")
    request: SplitRequest = Field(description="what the split was asked for")
    split_fingerprint: str = Field(description="of the split")
    work: RunWork = Field(description="what training it took, counted")
    calibration: KeptCalibration = Field(description="what its confidence is worth, from all its logits")

    @property
    def has_new_classes(self) -> bool:
        """Tells whether some classes of the split are new."""
        return self.num_old < len(self.class_names)


@dataclass(frozen=True)
class PartAnswers:
    """Predictions of one model on the N samples of one part.

    Classes are indices in the split's order, so that old classes come first. The best old class of a sample
    is the old class with the largest logit; likewise the best new class.

    Attributes:
        index: (N,) int32 row of each sample in the split's manifest, ascending.
        label: (N,) true classes, in the smallest unsigned type that holds all classes.
        old_answer, new_answer: (N,) best old and best new class, in the same type.
        old_logit: (N,) float16 logit of the best old class, rounded from float32.
        gap: (N,) float16 logit of the best new class minus that of the best old one, rounded to 11 bits with
            the sign kept: the prediction is the best new class exactly where the gap is above zero. Minus
            infinity where the model knows no new class.
        confidence: (N,) float16 softmax probability of the prediction, rounded.

    Predictions without a shift, and all rates of them, are exact. With a shift, only samples may be wrong
    whose gap differs from the shift by less than rounding, a relative 2^-11.
    """

    index: NDArray[np.int32]
    label: NDArray[Any]
    old_answer: NDArray[Any]
    new_answer: NDArray[Any]
    old_logit: NDArray[np.float16]
    gap: NDArray[np.float16]
    confidence: NDArray[np.float16]

    def __len__(self) -> int:
        return len(self.index)

    def rows(self, chosen: NDArray[np.int64]) -> PartAnswers:
        """Select n of the samples by their (n,) rows."""
        return PartAnswers(**{name: getattr(self, name)[chosen] for name in ARRAYS})

    def answers(self, bias: float = 0.0) -> NDArray[np.int64]:
        """(N,) predicted classes after ``bias`` is subtracted from the logits of the new classes."""
        is_new = self.gap.astype(np.float64) > bias
        return np.where(is_new, self.new_answer, self.old_answer).astype(np.int64)

    def right(self, bias: float = 0.0) -> NDArray[np.bool_]:
        """(N,) whether each of these predictions is right."""
        right: NDArray[np.bool_] = self.answers(bias) == self.label
        return right

    @property
    def wrong_by_bias(self) -> WrongByBias:
        """The wrong samples at every bias: gaps, and whether best new and best old class are wrong."""
        return WrongByBias(
            self.gap.astype(np.float64), self.new_answer != self.label, self.old_answer != self.label
        )


@dataclass(frozen=True)
class RunAnswers:
    """A run and its predictions.

    Attributes:
        folder: of the run.
        recipe: of its training.
        head: checkpoint, teachers, split, and counted work.
        val, test: predictions on the two parts; `val` is empty where the split has no validation part.
    """

    folder: Path
    recipe: Recipe
    head: AnswersHead
    val: PartAnswers
    test: PartAnswers

    def part(self, name: Part) -> PartAnswers:
        """The predictions on the part ``val`` or ``test``; KeyError for ``train``."""
        return {"val": self.val, "test": self.test}[name]

    @property
    def val_error(self) -> float:
        """The error on the validation part as trained, a fraction."""
        return float(np.mean(~self.val.right()))


def settings_of(run: RunAnswers) -> str:
    """The settings that runs of a row share, as JSON: recipe without seed and speed, number of teachers."""
    recipe = run.recipe.model_dump(mode="json")
    recipe["runtime"] = {key: recipe["runtime"][key] for key in MORE_THAN_ROUNDING}
    for key in list_changeable_keys():
        group, _, name = key.partition(".")
        if group == "data":
            recipe["data"].pop(name, None)
    return json.dumps([recipe, len(run.head.teachers)], sort_keys=True)


def answers_digest(run: RunAnswers) -> str:
    """The SHA-256 of a run's kept predictions, by which copies of one model are recognised."""
    digest = hashlib.sha256()
    for part in (run.val, run.test):
        for name in ARRAYS:
            digest.update(getattr(part, name).tobytes())
    return digest.hexdigest()


def read_answers(folder: Path) -> RunAnswers | None:
    """Read ``answers.npz`` and ``recipe.yaml`` of a run folder.

    Returns:
        None where there is no ``answers.npz``; also where one of the two files cannot be read, but a
        checkpoint is there from which predictions can be computed anew.

    Raises:
        CheckpointError: one of the two files cannot be read, and there is no checkpoint.
    """
    path = folder / ANSWERS_NAME
    if not path.is_file():
        return None
    try:
        # Opened here, since numpy leaves a file open that is cut short.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            head = AnswersHead.model_validate_json(bytes(arrays["head"]))
            if head.schema_version != SCHEMA_VERSION:
                raise ValueError(f"schema version {head.schema_version}, this mptctl reads {SCHEMA_VERSION}")
            recipe = load_recipe(str(folder / "recipe.yaml"), of_run=True)
            val, test = (_unpack({name: arrays[f"{part}_{name}"] for name in ARRAYS}) for part in PARTS)
    except Exception as error:  # numpy and zipfile raise a dozen types on a damaged file
        if (folder / "best.pt").is_file():
            return None
        raise CheckpointError(f"{path}: not to be read: {one_line(error)[:160]}; restore it") from error
    return RunAnswers(folder, recipe, head, val, test)


def write_answers(answers: RunAnswers) -> None:
    """Write ``answers.npz`` into the run's folder, whole or not at all.

    Raises:
        StorageError: the file cannot be written; an earlier file stays.
    """
    write_atomically(answers.folder / ANSWERS_NAME, answers_bytes(answers))


def answers_bytes(answers: RunAnswers) -> bytes:
    """The content of ``answers.npz``: the same bytes for the same predictions."""
    head = np.frombuffer(answers.head.model_dump_json().encode(), dtype=np.uint8)
    arrays: dict[str, Any] = {
        f"{part}_{name}": array for part in PARTS for name, array in _pack(answers.part(part)).items()
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, head=head, **arrays)
    return buffer.getvalue()


def round_answers(  # noqa: PLR0913  # the arrays of a file
    *,
    index: NDArray[np.int64],
    label: NDArray[np.int64],
    old_answer: NDArray[np.int64],
    new_answer: NDArray[np.int64],
    old_logit: NDArray[np.float64],
    new_logit: NDArray[np.float64],
    took_new: NDArray[np.bool_],
    confidence: NDArray[np.float64],
    classes: int,
) -> PartAnswers:
    """Round (N,) arrays to the types of the file, so that no prediction changes.

    Args:
        index, label, old_answer, new_answer, old_logit, confidence: as in `PartAnswers`.
        new_logit: of the best new class; not finite where the model knows no new class.
        took_new: whether the prediction is the best new class, which fixes the sign of the rounded gap.
        classes: their number, which decides the type of classes.
    """
    class_type = np.min_scalar_type(max(classes - 1, 0))
    knows_new = np.isfinite(new_logit)
    largest = float(np.finfo(np.float16).max)
    finite_old_logit = np.where(np.isfinite(old_logit), old_logit, -largest)
    difference = np.where(knows_new, new_logit - finite_old_logit, 0.0)
    rounded = np.clip(difference, -largest, largest).astype(np.float16)
    with_sign = np.where(took_new, np.maximum(rounded, LEAST), np.minimum(rounded, np.float16(0)))
    return PartAnswers(
        index=index.astype(np.int32),
        label=label.astype(class_type),
        old_answer=old_answer.astype(class_type),
        new_answer=np.where(knows_new, new_answer, 0).astype(class_type),
        old_logit=np.clip(old_logit, -largest, largest).astype(np.float16),
        gap=np.where(knows_new, with_sign, np.float16(-np.inf)),
        confidence=confidence.astype(np.float16),
    )


def no_answers() -> PartAnswers:
    """Predictions on a part without samples."""
    classes, numbers = np.empty(0, np.uint8), np.empty(0, np.float16)
    return PartAnswers(np.empty(0, np.int32), classes, classes, classes, numbers, numbers, numbers)


def _pack(part: PartAnswers) -> dict[str, NDArray[Any]]:
    """The arrays as they are written: as `PartAnswers`, but each row index as its step from the one before.

    Steps are small numbers, which compress well.
    """
    arrays = {name: getattr(part, name) for name in ARRAYS}
    return arrays | {"index": np.diff(part.index, prepend=np.int32(0))}


def _unpack(arrays: dict[str, NDArray[Any]]) -> PartAnswers:
    """Undo `_pack`; ValueError where the arrays are not of one length."""
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise ValueError(f"arrays of {sorted(lengths)} samples")
    return PartAnswers(**arrays | {"index": np.cumsum(arrays["index"], dtype=np.int32)})
