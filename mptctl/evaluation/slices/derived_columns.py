"""Columns for slices that a comparison derives: class, confidence, and size of pictures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.flips import CONFIDENCE_EDGES
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.reading.workspace import current

# Always there, and there if the old model has logits.
CLASS, CONFIDENCE = "class", "confidence"
# There with the pictures of a split.
SIZE = "size"


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
            *([CONFIDENCE] if "old" in self.answers.own_scores else []),
            *([] if self.pictures is None else [SIZE]),
        ]

    @property
    def reserved(self) -> list[str]:
        """Derived columns that no file may have; a file may have `size`, which then is used instead."""
        return [CLASS, CONFIDENCE]

    def relations(self, columns: Mapping[str, str]) -> tuple[dict[str, str], str]:
        """Register the wanted columns with DuckDB.

        Args:
            columns: derived columns that are wanted, each with the flag that asks for it, for messages.

        Returns:
            SQL of the value of each column, and the SQL of joins that has to follow the table `old`.

        Raises:
            DataError: `confidence` is wanted and the old model has no logits.
        """
        values, joins = dict[str, str](), ""
        if CLASS in columns:
            values[CLASS] = "old.label"
        if CONFIDENCE in columns:
            joins += f" JOIN {self._confidence_bands(columns[CONFIDENCE])} AS bands ON bands.row = old.row"
            values[CONFIDENCE] = "bands.band"
        if SIZE in columns and self.pictures is not None:
            joins += f" JOIN {_size_bands(self.pictures())} AS seen ON seen.id = old.id::VARCHAR"
            values[SIZE] = "seen.size"
        return values, joins

    def _confidence_bands(self, flag: str) -> str:
        """SQL: a relation of each row's band of the old model's confidence; DataError without logits."""
        scores = self.answers.own_scores.get("old")
        if scores is None:
            name = self.answers.pairing.models["old"].name
            lack = (
                "has no logits" if "old" not in self.answers.scores else "has logits that --class-map merged"
            )
            raise DataError(f"{flag} {CONFIDENCE}: {name} {lack}; give others, or leave it out")
        # A confidence at the last edge lies in the last band.
        place = np.searchsorted(CONFIDENCE_EDGES, scores.confidence, side="right") - 1
        names = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(CONFIDENCE_EDGES)]
        bands = [names[i] for i in np.clip(place, 0, len(names) - 1).tolist()]
        return current().register({"row": self.answers.pairing.rows["old"], "band": bands})


def _size_bands(pictures: PictureSizes) -> str:
    """SQL: a relation of each picture's band of the shorter side, from a power of two to below the next."""
    low_ends = 2 ** np.floor(np.log2(np.maximum(pictures.sides, 1))).astype(np.int64)
    bands = [f"{low} to {2 * low - 1} px" for low in low_ends.tolist()]
    return current().register({"id": pictures.ids, "size": bands})
