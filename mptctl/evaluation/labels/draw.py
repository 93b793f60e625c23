"""The samples that two models answer differently, and the random order in which they are labelled."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mptctl.errors import DataError, UsageError, option
from mptctl.evaluation.pairing.join import Codes, Pairing, join
from mptctl.evaluation.reading.columns import first, integers
from mptctl.evaluation.reading.logits import confidences
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.reading.readers import has_predictions
from mptctl.evaluation.reading.side_table import SideTable, side_headers
from mptctl.evaluation.reading.spelling import NUMBER, normal_form
from mptctl.evaluation.reading.spreadsheet_cells import WRITTEN_FORMULA, as_cell
from mptctl.evaluation.reading.workspace import current

Strata = Literal["none", "confidence"]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
ROLES = ("old", "new")
# Labels that are no class: both models are wrong; whoever labels cannot tell.
OTHER, UNSURE = "other", "unsure"
COLUMNS = (
    *("id", "old", "new", "old_confidence", "new_confidence", "stratum", "probability", "path"),
    *("draw", "label"),
)
# Chosen: models whose confidences differ by less are about as sure as each other.
ALIKE = 0.2
STRATA = ("new surer", "about as sure", "old surer")
# Rows of a draw that are made into text at once.
AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class Traffic:
    """N samples with the answers of two models, and the D of them on which these differ.

    Attributes:
        pairing: the samples.
        numbers: (D,) the samples whose answers differ, by id as text.
        ids: (D,) their ids.
    """

    pairing: Pairing
    numbers: IntArray
    ids: pa.ChunkedArray

    def __len__(self) -> int:
        return len(self.numbers)

    def answers(self, role: str) -> Codes:
        """(D,) the answers of a model, as places in the vocabulary."""
        return self.pairing.answers[role][self.numbers]

    @cached_property
    def confidence(self) -> Mapping[str, FloatArray]:
        """By role, (D,) the softmax probability of the answer: from logits, or from a column `confidence`."""
        found: dict[str, FloatArray] = {}
        for role, model in self.pairing.models.items():
            if model.logits is not None:
                found[role] = confidences(model.logits, self.pairing.rows[role][self.numbers])
            elif is_file(model) and "confidence" in side_headers(Path(model.name)):
                found[role] = self._column_of(Path(model.name))
        return found

    def _column_of(self, path: Path) -> FloatArray:
        """(D,) the column `confidence` of a file; DataError where a cell is no probability."""
        view = current().register({"place": np.arange(len(self)), "number": self.numbers})
        both = f"{self.pairing.relation} AS s JOIN {view} AS v USING (number)"
        samples = f"(SELECT s.id, v.place AS number FROM {both})"
        codes, values = SideTable(path, ["confidence"]).values_of(samples, len(self))[0]
        numbers = [float(value) if NUMBER.fullmatch(value) else -1 for value in values]
        if wrong := [
            value for value, number in zip(values, numbers, strict=True) if not 0 <= number <= 1 + 1e-6
        ]:
            raise DataError(
                f"{path}: `confidence` holds {first(map(repr, wrong))}; write numbers from 0 to 1"
            )
        return np.array(numbers)[codes]


def is_file(model: Predictions) -> bool:
    """Tell whether predictions were read from files that are still there."""
    return model.origin == "file" and has_predictions(Path(model.name))


def read_traffic(old: Predictions, new: Predictions) -> Traffic:
    """Match the predictions of two models by id, without labels, and find the samples on which they differ.

    Raises:
        DataError: ids are repeated, missing or extra; a class has two spellings, or is called as labels are
            that are no class; or no answers differ.
        StorageError: more memory is needed than the workspace may take.
    """
    models = {"old": old.without_labels(), "new": new.without_labels()}
    known = {role: {*model.table.answers, *(model.classes or ())} for role, model in models.items()}
    names = sorted({""}.union(*known.values()))
    _refuse_names(new.name, names, known)
    pairing = join(models, tuple(names))
    numbers = np.flatnonzero(pairing.answers["old"] != pairing.answers["new"])
    if not numbers.size:
        raise DataError(
            f"{new.name}: gives all {len(new):,} samples the predictions of {old.name}, so no sample can "
            "flip and there is nothing to label; name the replacement as NEW"
        )
    found = pairing.with_ids(numbers)
    return Traffic(pairing, integers(found["number"].combine_chunks()), found["id"])


def cell_text(value: object) -> str:
    """A cell of a label file as text, without blanks around it and the apostrophe before a formula."""
    return re.sub(WRITTEN_FORMULA, r"\1", "" if value is None else str(value).strip())


def _refuse_names(new: str, names: Sequence[str], known: Mapping[str, set[str]]) -> None:
    """Raise DataError for a class in two spellings, or classes that labels cannot name or tell apart."""
    spellings: dict[str, str] = {}
    labels: dict[str, str] = {}
    for name in names:
        alike = labels.setdefault(cell_text(name), name)
        if alike != name:
            raise DataError(
                f"{new}: {first([name])} and {first([alike])} are two classes that no label tells apart, "
                "since blanks around a label do not count; rename one of them"
            )
        form = normal_form(name)
        if form in (OTHER, UNSURE):
            raise DataError(
                f"{new}: a class is called {name}, which as a label says that no class is right or known; "
                "rename the class"
            )
        other = spellings.setdefault(form, name)
        if other != name and not any({name, other} <= own for own in known.values()):
            raise DataError(
                f"{new}: {first([name])} and {first([other])} are two spellings of one class, one of each "
                "model; write one spelling in both files"
            )


@dataclass(frozen=True, eq=False)
class Draw:
    """A random order of the disagreements, which traffic, seed, size and strata alone decide.

    Args:
        traffic: the samples.
        seed: of the order.
        size: how many are drawn; None: all.
        strata: ``confidence``: by which model is surer, each in proportion to its size.

    Raises:
        UsageError: more are drawn than there are, or strata need confidences that a model lacks.
    """

    traffic: Traffic
    seed: int = 0
    size: int | None = None
    strata: Strata = "none"

    def __post_init__(self) -> None:
        if self.size is not None and not 1 <= self.size <= len(self.traffic):
            raise UsageError(
                f"{option('draw')} {self.size}: predictions differ on {len(self.traffic):,} samples; draw "
                "one of these, or at most all"
            )
        if self.strata == "none":
            return
        for role in ROLES:
            if role not in self.traffic.confidence:
                raise UsageError(
                    f"{option('strata')} confidence: {role.upper()} has neither `logits` nor `confidence`; "
                    "add one of them, or draw without strata"
                )

    def __len__(self) -> int:
        return len(self.traffic) if self.size is None else self.size

    @cached_property
    def stratum(self) -> IntArray:
        """(D,) the stratum of each disagreement, as its place in `names`."""
        if self.strata == "none":
            return np.zeros(len(self.traffic), dtype=np.int64)
        difference = self.traffic.confidence["old"] - self.traffic.confidence["new"]
        return np.searchsorted([-ALIKE, ALIKE], difference)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the strata; one empty name without strata."""
        return ("",) if self.strata == "none" else STRATA

    def sizes(self, rows: NDArray[Any] | slice = slice(None)) -> IntArray:
        """(H,) how many disagreements each stratum has, or how many of some rows."""
        return np.bincount(self.stratum[rows], minlength=len(self.names))

    @cached_property
    def order(self) -> IntArray:
        """(n,) the drawn disagreements in random order; every beginning has its share of each stratum."""
        # The raw numbers of a bit generator are the same in every version of numpy.
        keys = np.random.Philox(self.seed).random_raw(len(self.traffic))
        if self.strata == "none":
            drawn = np.argpartition(keys, len(self) - 1)[: len(self)]
            return drawn[np.argsort(keys[drawn])]
        shuffled = np.lexsort([keys, self.stratum])
        # In its stratum of size s, the row of rank r stands at (r + 1/2) / s of the whole.
        rank = np.concatenate([(np.arange(size) + 0.5) / size for size in self.sizes() if size])
        return shuffled[np.argsort(rank, kind="stable")][: len(self)]

    @cached_property
    def probability(self) -> FloatArray:
        """(H,) the share of each stratum that is drawn, the probability of each of its rows to be drawn."""
        return self.sizes(self.order) / np.maximum(self.sizes(), 1)

    @cached_property
    def fingerprint(self) -> str:
        """The name of the draw: a digest of all that it depends on, its seed, size and strata."""
        traffic = self.traffic
        digest = hashlib.sha256(repr((len(traffic.pairing), traffic.pairing.vocabulary)).encode())
        for buffer in traffic.ids.combine_chunks().buffers()[1:]:
            digest.update(buffer)
        for codes in (*(traffic.answers(role) for role in ROLES), self.stratum):
            digest.update(codes.astype(np.int32).data)
        return f"draw-{digest.hexdigest()[:16]}-{self.seed}-{len(self)}-{self.strata}"

    def rows(
        self, start: int = 0, stop: int | None = None, folder: Path | None = None
    ) -> list[dict[str, Any]]:
        """The drawn rows from one place to another, by column of `COLUMNS`; `label` is empty.

        Args:
            start, stop: places in the drawn order; default: all.
            folder: of the pictures whose paths below it are the ids; None: `path` is empty.
        """
        traffic, chosen = self.traffic, self.order[start:stop]
        names, stratum = traffic.pairing.vocabulary, self.stratum[chosen]
        ids: list[str] = traffic.ids.take(pa.array(chosen)).to_pylist()
        nothing = [None] * len(ids)
        columns = (
            ids,
            *([names[code] for code in traffic.answers(role)[chosen].tolist()] for role in ROLES),
            *(
                traffic.confidence[role][chosen].round(6).tolist() if role in traffic.confidence else nothing
                for role in ROLES
            ),
            [self.names[place] for place in stratum.tolist()],
            self.probability[stratum].tolist(),
            ["" if folder is None else str(folder / sample) for sample in ids],
            [f"{self.fingerprint}-{place}" for place in range(start, start + len(ids))],
            [""] * len(ids),
        )
        return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]

    def write_csv(self, stream: IO[bytes], folder: Path | None = None) -> None:
        """Write the drawn rows as CSV; text is escaped so that a spreadsheet runs none of it."""
        stream.write((",".join(COLUMNS) + "\n").encode())
        for start in range(0, len(self), AT_ONCE):
            block = io.StringIO()
            csv.writer(block, lineterminator="\n").writerows(
                [as_cell(value) if isinstance(value, str) else value for value in row.values()]
                for row in self.rows(start, start + AT_ONCE, folder)
            )
            stream.write(block.getvalue().encode())
