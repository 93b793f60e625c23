"""The answers of a run to the validation and the test part, and the small file that holds them."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from mptctl.data.split_file import SplitRequest
from mptctl.errors import CheckpointError, UsageError, one_line
from mptctl.evaluation.paired_bootstrap import WrongByBias
from mptctl.files import Model, write_atomically
from mptctl.names import Part
from mptctl.recipe import Recipe, load_recipe, may_change_between_starts
from mptctl.studies.training_cost import RunWork

ANSWERS_NAME = "answers.npz"
SCHEMA_VERSION = 2
# The parts in the file, and the arrays of each.
PARTS: tuple[Part, ...] = ("val", "test")
ARRAYS = ("index", "label", "old_answer", "new_answer", "old_logit", "gap", "confidence")
# The smallest number above zero that half precision has: the gap of an answer that is only just a new class.
LEAST = np.float16(2.0**-24)
# Keys of a recipe's runtime with which a run of another value is another row.
MORE_THAN_ROUNDING = ("precision", "teacher_precision", "sync_batchnorm")


class KeptCalibration(Model):
    """The calibration of a model, on test samples of the classes that it knows; errors are fractions."""

    n: int = Field(description="of these samples")
    accuracy: float = Field(description="right predictions / n")
    ece: float = Field(description="expected calibration error, 15 bins of equal width")
    aece: float = Field(description="adaptive calibration error, 15 bins of equal count")
    temperature: float | None = Field(description="fitted on the validation part; null where there is none")
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


@dataclass(frozen=True)
class PartAnswers:
    """Answers of one model on one part. Classes are places in the split's order, so that old ones come first.

    Attributes:
        index: (N,) int32 row of each sample in the split's manifest, ascending.
        label: (N,) true classes, in the smallest unsigned type that holds them, as the next two.
        old_answer, new_answer: (N,) the best old class and the best new one.
        old_logit: (N,) float16 logit of the best old class, rounded from float32.
        gap: (N,) float16, logit of the best new class minus that of the best old one, rounded to 11 bits with
            its sign kept: the answer is the new class exactly where it is above zero. Minus infinity where
            none is known.
        confidence: (N,) float16 softmax probability of the answer, rounded.

    Answers without a bias, and all rates that follow from them, are exact. A bias is exact but for samples
    whose gap lies within the rounding of it, a part of 2^-11.
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

    @property
    def new_logit(self) -> NDArray[np.float64]:
        """(N,) logit of the best new class."""
        return self.old_logit.astype(np.float64) + self.gap.astype(np.float64)

    def answers(self, bias: float = 0.0) -> NDArray[np.int64]:
        """(N,) answers once a constant is taken off the logits of the new classes."""
        new = self.gap.astype(np.float64) > bias
        return np.where(new, self.new_answer, self.old_answer).astype(np.int64)

    def right(self, bias: float = 0.0) -> NDArray[np.bool_]:
        """(N,) which of them are right."""
        right: NDArray[np.bool_] = self.answers(bias) == self.label
        return right

    @property
    def wrong_by_bias(self) -> WrongByBias:
        """Wrong answers as a constant is taken off the logits of the new classes."""
        return WrongByBias(
            self.gap.astype(np.float64), self.new_answer != self.label, self.old_answer != self.label
        )


@dataclass(frozen=True)
class RunAnswers:
    """A run, and what it answered.

    Attributes:
        folder: of the run.
        recipe: that it was trained by.
        head: checkpoint, teachers, split, and counted work.
        val, test: its answers; `val` is empty where the split has no validation part.
    """

    folder: Path
    recipe: Recipe
    head: AnswersHead
    val: PartAnswers
    test: PartAnswers

    def part(self, name: Part) -> PartAnswers:
        """Its answers to one of the two parts."""
        return {"val": self.val, "test": self.test}[name]


def settings_of(run: RunAnswers) -> str:
    """The settings that the seeds of a row share, as text: the recipe without its seed and keys of speed."""
    recipe = run.recipe.model_dump(mode="json")
    free = may_change_between_starts()
    recipe["runtime"] = {key: recipe["runtime"][key] for key in MORE_THAN_ROUNDING}
    recipe["data"] = {key: value for key, value in recipe["data"].items() if f"data.{key}" not in free}
    return json.dumps([recipe, len(run.head.teachers)], sort_keys=True)


def answers_digest(run: RunAnswers) -> str:
    """A digest of all that is kept of a run's answers: two models that are not one have another."""
    digest = hashlib.sha256()
    for part in (run.val, run.test):
        for name in ARRAYS:
            digest.update(getattr(part, name).tobytes())
    return digest.hexdigest()


def read_answers(folder: Path) -> RunAnswers | None:
    """Reads ``answers.npz`` and ``recipe.yaml``; None without the first, or where it is of no use.

    Raises:
        CheckpointError: it or the recipe is damaged or missing, and there is no checkpoint that could answer
            anew.
    """
    path = folder / ANSWERS_NAME
    if not path.is_file():
        return None
    try:
        # Opened here: of a file that is cut short numpy would leave it open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            head = AnswersHead.model_validate_json(bytes(arrays["head"]))
            if head.schema_version != SCHEMA_VERSION:
                raise ValueError(f"schema version {head.schema_version}, this mptctl reads {SCHEMA_VERSION}")
            recipe = load_recipe(str(folder / "recipe.yaml"), of_run=True)
            val, test = (_unpack({name: arrays[f"{part}_{name}"] for name in ARRAYS}) for part in PARTS)
    except (
        UsageError,
        OSError,
        ValueError,
        KeyError,
        ValidationError,
        zipfile.BadZipFile,
        EOFError,
    ) as error:
        if (folder / "best.pt").is_file():
            return None
        raise CheckpointError(f"{path}: not to be read: {one_line(error)[:160]}; restore it") from error
    return RunAnswers(folder, recipe, head, val, test)


def write_answers(answers: RunAnswers) -> None:
    """Write ``answers.npz`` into the run's folder, whole or not at all.

    Raises:
        StorageError: it cannot be written; what was there stays.
    """
    write_atomically(answers.folder / ANSWERS_NAME, answers_bytes(answers))


def answers_bytes(answers: RunAnswers) -> bytes:
    """The content of ``answers.npz``; the same for the same answers, whenever it is made."""
    head = np.frombuffer(answers.head.model_dump_json().encode(), dtype=np.uint8)
    parts = {"val": answers.val, "test": answers.test}
    arrays: dict[str, Any] = {
        f"{part}_{name}": array for part in PARTS for name, array in _pack(parts[part]).items()
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
    """Bring numbers into the types of the file; which answer was given is kept whatever the rounding."""
    small = np.min_scalar_type(max(classes - 1, 0))
    known = np.isfinite(new_logit)
    largest = float(np.finfo(np.float16).max)
    difference = np.where(known, new_logit - np.where(np.isfinite(old_logit), old_logit, -largest), 0.0)
    gap = np.clip(difference, -largest, largest).astype(np.float16)
    gap = np.where(took_new, np.maximum(gap, LEAST), np.minimum(gap, np.float16(0)))
    gap = np.where(known, gap, np.float16(-np.inf))
    return PartAnswers(
        index=index.astype(np.int32),
        label=label.astype(small),
        old_answer=old_answer.astype(small),
        new_answer=np.where(known, new_answer, 0).astype(small),
        old_logit=np.clip(old_logit, -largest, largest).astype(np.float16),
        gap=gap,
        confidence=confidence.astype(np.float16),
    )


def no_answers() -> PartAnswers:
    rows, numbers = np.empty(0, dtype=np.int64), np.empty(0)
    return round_answers(
        index=rows,
        label=rows,
        old_answer=rows,
        new_answer=rows,
        old_logit=numbers,
        new_logit=numbers,
        took_new=np.empty(0, dtype=np.bool_),
        confidence=numbers,
        classes=1,
    )


def _pack(part: PartAnswers) -> dict[str, NDArray[Any]]:
    """Arrays as they are written. Rows as steps from one to the next: nearly all are small, and pack well."""
    arrays = {name: getattr(part, name) for name in ARRAYS}
    return arrays | {"index": np.diff(part.index, prepend=np.int32(0))}


def _unpack(arrays: dict[str, NDArray[Any]]) -> PartAnswers:
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise ValueError(f"arrays of {sorted(lengths)} samples")
    return PartAnswers(**arrays | {"index": np.cumsum(arrays["index"], dtype=np.int32)})
