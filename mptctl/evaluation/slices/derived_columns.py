"""Columns for slices that a comparison derives: class, confidence, and size of pictures."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.pairing.join import Codes, Pairing
from mptctl.evaluation.pairing.paired_answers import PairedAnswers

# Edges of the bands of the old model's confidence, narrower towards 1, where most answers are.
CONFIDENCE_EDGES = (0.0, 0.5, 0.7, 0.9, 0.99, 1.0)
# Always there, and there if the old model has logits.
CLASS, CONFIDENCE = "class", "confidence"
# There with the pictures of a split.
SIZE = "size"
# Derived columns that no file may have; a file may have `size`, which then is used instead.
RESERVED = (CLASS, CONFIDENCE)


@dataclass(frozen=True, eq=False)
class Column:
    """A column for slices.

    Attributes:
        codes: (N,) the number of each sample's value, in the order of the samples.
        values: the values, by their numbers.
    """

    codes: Codes
    values: tuple[str, ...]


@dataclass(frozen=True)
class PictureSizes:
    """The sizes of pictures.

    Attributes:
        ids: (N,) samples.
        sides: (N,) length of the shorter side in pixels.
    """

    ids: NDArray[np.str_]
    sides: NDArray[np.int64]


@dataclass(frozen=True)
class DerivedColumns:
    """The columns that a comparison derives from answers and pictures.

    Attributes:
        answers: of both models.
        pictures: reads the sizes of the pictures when it is called; None where there are no pictures.
    """

    answers: PairedAnswers
    pictures: Callable[[], PictureSizes] | None = None

    @property
    def names(self) -> list[str]:
        """The derived columns that this comparison has."""
        return [
            CLASS,
            *([CONFIDENCE] if "old" in self.answers.scores else []),
            *([] if self.pictures is None else [SIZE]),
        ]

    def read(self, column: str, flag: str) -> Column:
        """Read one of the columns for all samples.

        Args:
            column: one of `names` or `RESERVED`.
            flag: that asks for it, for messages.

        Raises:
            DataError: `confidence` is wanted and the old model has no logits; a picture has no size.
            KeyError: there is no such column.
        """
        pairing = self.answers.pairing
        if column == CLASS:
            return Column(pairing.truth, pairing.vocabulary)
        if column == CONFIDENCE:
            return self._confidence_bands(flag)
        if column == SIZE and self.pictures is not None:
            return _size_bands(pairing, self.pictures())
        raise KeyError(column)

    def _confidence_bands(self, flag: str) -> Column:
        """Each sample's band of the old model's confidence; DataError without logits."""
        scores = self.answers.scores.get("old")
        if scores is None:
            name = self.answers.pairing.models["old"].name
            raise DataError(
                f"{flag} {CONFIDENCE}: {name} has no logits, or --class-map merged some; give others, or leave "
                "it out"
            )
        names = tuple(f"{low:g} to {high:g}" for low, high in itertools.pairwise(CONFIDENCE_EDGES))
        place = np.searchsorted(CONFIDENCE_EDGES, scores.confidence, side="right") - 1
        return Column(np.clip(place, 0, len(names) - 1).astype(np.int32), names)


def _size_bands(pairing: Pairing, pictures: PictureSizes) -> Column:
    """Each sample's band of its picture's shorter side, from a power of two to below the next."""
    powers = np.floor(np.log2(np.maximum(pictures.sides, 1))).astype(np.int32)
    number = pairing.find(pictures.ids.tolist())
    numbers = np.array([number.get(name, -1) for name in pictures.ids.tolist()])
    power_of = np.zeros(len(pairing), dtype=np.int32)
    power_of[numbers[numbers >= 0]] = powers[numbers >= 0]
    names = tuple(
        f"{2**power} to {2 ** (power + 1) - 1} px" for power in range(int(powers.max(initial=0)) + 1)
    )
    return Column(power_of, names)
