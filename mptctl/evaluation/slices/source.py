"""The source of slices: flip tables of parts of the test set, by columns of files or derived columns."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.pairing.confusion import Confusion
from mptctl.evaluation.pairing.join import Codes
from mptctl.evaluation.pairing.paired_answers import PairedAnswers, count_pairs
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.reading.side_table import SideTable, no_such_column, side_headers
from mptctl.files.explained import shown

# Columns that a comparison derives, and no file may have; the second needs logits of the old model.
CLASS, CONFIDENCE = "class", "confidence"
# Edges of the bands of the old model's confidence, narrower towards 1, where most answers are.
CONFIDENCE_EDGES = (0.0, 0.5, 0.7, 0.9, 0.99, 1.0)
# Chosen: a column with more different values holds ids or measurements, and makes no slices.
MOST_SLICES = 10_000
# Chosen: most crossings, and columns in all of them, of one comparison.
MOST_KEYS, MOST_COLUMNS = 100, 60


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
class Slice:
    """The part of the test set with certain values in some columns.

    Attributes:
        by: the value in each column; empty for samples without a value.
        counts: the flip table, over samples of old classes.
    """

    by: Mapping[str, str]
    counts: Counts


class NamedSample(NamedTuple):
    """A sample that is named by its id.

    Attributes:
        of_old: its class is an old one.
        old_right, new_right: the model gets it right.
        values: by column of a slice.
    """

    of_old: bool
    old_right: bool
    new_right: bool
    values: Mapping[str, str]

    @property
    def flipped(self) -> bool:
        """True for a negative flip."""
        return self.of_old and self.old_right and not self.new_right


def slice_name(by: Mapping[str, str]) -> str:
    """Name a slice by its columns and values, such as ``country=de``, each cut to a moderate length.

    An empty value reads ``(empty)``.
    """
    return ", ".join(f"{shown(column)}={shown(value) or '(empty)'}" for column, value in by.items())


def cross(
    columns: Sequence[Column], samples: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[tuple[str, ...]]]:
    """Number the different values that n samples have in some columns.

    Returns:
        (n,) the number of each sample's values, and the values by their numbers.
    """
    numbers: NDArray[np.int64] = np.zeros(len(samples), dtype=np.int64)
    groups: list[tuple[str, ...]] = [()] if len(samples) else []
    for column in columns:
        # A group and a value of the column make one number; those that occur are numbered anew, from 0.
        size = len(column.values)
        found, numbers = np.unique(numbers * size + column.codes[samples], return_inverse=True)
        groups = [(*groups[each // size], column.values[each % size]) for each in found.tolist()]
    return numbers, groups


def derived_column(answers: PairedAnswers, column: str, flag: str) -> Column:
    """The class of each sample, or the band of the old model's confidence; DataError without logits.

    Args:
        answers: of both models.
        column: `CLASS` or `CONFIDENCE`.
        flag: that asks for it, for messages.
    """
    pairing = answers.pairing
    if column == CLASS:
        return Column(pairing.truth, pairing.vocabulary)
    if "old" not in answers.scores:
        raise DataError(
            f"{flag} {CONFIDENCE}: {pairing.models['old'].name} has no logits, or --class-map merged some; "
            "give others, or leave it out"
        )
    names = tuple(f"{low:g} to {high:g}" for low, high in itertools.pairwise(CONFIDENCE_EDGES))
    band = np.searchsorted(CONFIDENCE_EDGES, answers.scores["old"].confidence, side="right") - 1
    return Column(np.clip(band, 0, len(names) - 1).astype(np.int32), names)


class SliceSource:
    """The samples of a comparison, with the columns by which slices are asked for.

    Args:
        answers: of both models.
        files: where columns are looked for, in this order; the first file that has a column is used.
        keys: keys of slices, each one column or a crossing of several, with the flag that asks for it, for
            messages.

    Raises:
        DataError: a column that no file has, or that both a file and the comparison have; a file that cannot
            be read or lacks samples.
        UsageError: too many keys or columns.
    """

    def __init__(
        self, answers: PairedAnswers, files: Sequence[Path], keys: Mapping[tuple[str, ...], str]
    ) -> None:
        self.answers = answers
        self.keys = list(keys)
        self._flag = {column: flag for key, flag in keys.items() for column in key}
        columns = dict.fromkeys(column for key in self.keys for column in key)
        if len(self.keys) > MOST_KEYS or len(columns) > MOST_COLUMNS:
            raise UsageError(
                f"{next(iter(keys.values()))}: slices by {len(self.keys):,} crossings of {len(columns):,} "
                f"columns; at most {MOST_KEYS} crossings of {MOST_COLUMNS} columns are counted; name fewer"
            )
        headers = {file: side_headers(file) for file in dict.fromkeys(files)} if columns else {}
        self._columns = self._read_columns(list(columns), headers)

    def _read_columns(self, columns: Sequence[str], headers: Mapping[Path, list[str]]) -> dict[str, Column]:
        """Read some columns: derived ones, or those of the first file that has the column.

        Args:
            columns: that are wanted.
            headers: the columns of each file.

        Raises:
            DataError: nothing has a column, or both a file and the comparison have it; a file lacks samples.
        """
        of_files: dict[Path, list[str]] = {}
        derived: list[str] = []
        for column in columns:
            files = [file for file, names in headers.items() if column in names]
            if column in (CLASS, CONFIDENCE):
                if files:
                    raise DataError(
                        f"{self._flag[column]} {column}: is the {column} that the comparison knows, and a "
                        f"column of {files[0]}; rename that"
                    )
                derived.append(column)
            elif not files:
                own = [CLASS, CONFIDENCE] if "old" in self.answers.scores else [CLASS]
                raise no_such_column(self._flag[column], headers, column, own)
            else:
                of_files.setdefault(files[0], []).append(column)
        found = {column: derived_column(self.answers, column, self._flag[column]) for column in derived}
        pairing = self.answers.pairing
        for file, names in of_files.items():
            values = SideTable(file, names).values_of(pairing.relation, len(pairing))
            found |= {name: Column(*each) for name, each in zip(names, values, strict=True)}
        return found

    @cached_property
    def slices(self) -> dict[tuple[str, ...], list[Slice]]:
        """All slices of each key, sorted by value, over the samples of old classes.

        Raises:
            UsageError: a key has more than `MOST_SLICES` slices.
        """
        return {key: self._count(key) for key in self.keys}

    def _count(self, key: tuple[str, ...]) -> list[Slice]:
        """Count the flip table of each slice by the columns of a key; UsageError for too many slices."""
        old = np.flatnonzero(self.answers.of_old)
        numbers, groups = cross([self._columns[column] for column in key], old)
        if len(groups) > MOST_SLICES:
            raise UsageError(
                f"{self._flag[key[0]]} {','.join(key)}: more than {MOST_SLICES:,} different values; "
                "choose columns of fewer, or write bands of them into --metadata FILE"
            )
        tables = self.answers.count_by(numbers, len(groups)).tolist()
        counts = [Counts(**dict(zip(Counts.model_fields, table, strict=True))) for table in tables]
        slices = sorted(zip(groups, counts, strict=True), key=itemgetter(0))
        return [Slice(dict(zip(key, values, strict=True)), table) for values, table in slices]

    @cached_property
    def _by_values(self) -> dict[frozenset[tuple[str, str]], Slice]:
        """All slices of all keys, by their columns and values."""
        return {frozenset(each.by.items()): each for slices in self.slices.values() for each in slices}

    def find(self, by: Mapping[str, str]) -> Slice | None:
        """Find the slice with these values by column; None where it has no sample of an old class."""
        return self._by_values.get(frozenset(by.items()))

    @cached_property
    def _flips(self) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
        """(F,) the numbers of the negative flips, and (F,) their ids."""
        ids = self.answers.pairing.by_id(np.flatnonzero(self.answers.flipped))
        return np.array([*ids.values()], dtype=np.int64), np.array([*ids], dtype=object)

    def flips_in(self, every: Sequence[Mapping[str, str]]) -> list[frozenset[str]]:
        """Find the ids of the negative flips in each of some slices, given by their values by column."""
        if not every:
            return []
        numbers, ids = self._flips
        return [frozenset(ids[chosen].tolist()) for chosen in self._in_slices(every, numbers)]

    def confusions_in(self, every: Sequence[Mapping[str, str]]) -> list[Confusion]:
        """Count the old model's answers by class in each of some slices, given by their values by column.

        Classes and answers are places in the vocabulary.
        """
        pairing, old = self.answers.pairing, np.flatnonzero(self.answers.of_old)
        chosen = [old[places] for places in self._in_slices(every, old)]
        size = len(pairing.vocabulary)
        return [
            Confusion(*count_pairs(pairing.truth[samples], pairing.answers["old"][samples], size))
            for samples in chosen
        ]

    def _in_slices(
        self, every: Sequence[Mapping[str, str]], samples: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Find the indices of those of n samples that are in each of some slices, given by values by column.

        The samples are looked through once for all slices by the same columns.
        """
        indices: dict[frozenset[tuple[str, str]], NDArray[np.int64]] = {}
        for columns in {tuple(sorted(by)) for by in every}:
            numbers, groups = cross([self._columns[column] for column in columns], samples)
            order = np.argsort(numbers, kind="stable")
            ends = np.searchsorted(numbers[order], np.arange(len(groups) + 1))
            for values, (start, end) in zip(groups, itertools.pairwise(ends), strict=True):
                indices[frozenset(zip(columns, values, strict=True))] = order[start:end]
        nothing = np.zeros(0, dtype=np.int64)
        return [indices.get(frozenset(by.items()), nothing) for by in every]

    def named(self, ids: Sequence[str]) -> dict[str, NamedSample]:
        """Read the samples with some ids, by id; an id that no sample has is left out."""
        answers = self.answers
        return {
            name: NamedSample(
                bool(answers.of_old[i]),
                bool(answers.right["old"][i]),
                bool(answers.right["new"][i]),
                {key: column.values[column.codes[i]] for key, column in self._columns.items()},
            )
            for name, i in (answers.pairing.find(ids) if ids else {}).items()
        }
