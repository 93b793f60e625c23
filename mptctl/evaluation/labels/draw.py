"""The samples that two models answer differently, and the random order in which they are labelled."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping
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
from mptctl.evaluation.reading.predictions import Predictions, row_blocks
from mptctl.evaluation.reading.readers import has_predictions
from mptctl.evaluation.reading.side_table import SideTable, side_headers
from mptctl.evaluation.reading.spelling import normal_form
from mptctl.evaluation.reading.spreadsheet_cells import as_cell
from mptctl.evaluation.reading.workspace import current

Strata = Literal["none", "confidence"]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
ROLES = ("old", "new")
# Labels that are no class: both models are wrong; whoever labels cannot tell.
OTHER, UNSURE = "other", "unsure"
COLUMNS = (
    *("id", "old", "new", "old_confidence", "new_confidence", "stratum", "inclusion", "path"),
    *("fingerprint", "label"),
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
        for role in ROLES:
            model = self.pairing.models[role]
            if model.logits is not None:
                found[role] = _confidences(model.logits, self.pairing.rows[role][self.numbers])
            elif is_file(model) and "confidence" in side_headers(Path(model.name)):
                found[role] = self._column_of(Path(model.name))
        return found

    def _column_of(self, path: Path) -> FloatArray:
        """(D,) the column `confidence` of a file; DataError where a cell is no number."""
        view = current().register({"place": np.arange(len(self)), "number": self.numbers})
        both = f"{self.pairing.relation} AS s JOIN {view} AS v USING (number)"
        samples = f"(SELECT s.id, v.place AS number FROM {both})"
        codes, values = SideTable(path, ["confidence"]).values_of(samples, len(self))[0]
        try:
            return np.array([float(value) for value in values])[codes]
        except ValueError as error:
            raise DataError(
                f"{path}: `confidence` holds text that is no number ({error}); write numbers"
            ) from error


def is_file(model: Predictions) -> bool:
    """Tell whether predictions were read from files that are still there."""
    return model.origin == "file" and has_predictions(Path(model.name))


def _confidences(logits: NDArray[Any], rows: IntArray) -> FloatArray:
    """(D,) the softmax probability of the largest logit in some rows of (N, C) logits."""
    found = np.empty(len(rows))
    for block in row_blocks(np.broadcast_to(np.zeros(1), (len(rows), logits.shape[1]))):
        part = np.asarray(logits[rows[block]], dtype=np.float64)
        found[block] = 1 / np.exp(part - part.max(axis=1, keepdims=True)).sum(axis=1)
    return found


def read_traffic(old: Predictions, new: Predictions) -> Traffic:
    """Match the predictions of two models by id, without labels, and find the samples on which they differ.

    Raises:
        DataError: ids are repeated, missing or extra; a class has two spellings, or is called as labels are
            that are no class; or no answers differ.
        StorageError: more memory is needed than the workspace may take.
    """
    models = {"old": old.without_labels(), "new": new.without_labels()}
    names = {""}.union(*({*model.table.answers, *(model.classes or ())} for model in models.values()))
    _refuse_names(models, sorted(names))
    pairing = join(models, tuple(sorted(names)))
    numbers = np.flatnonzero(pairing.answers["old"] != pairing.answers["new"])
    if not numbers.size:
        raise DataError(
            f"{new.name}: gives all {len(new):,} samples the predictions of {old.name}, so no sample can "
            "flip and "
            "there is nothing to label; name the replacement as NEW"
        )
    view = current().register({"number": numbers})
    found = current().table(
        f"SELECT s.id::VARCHAR AS id, s.number AS number FROM {pairing.relation} AS s JOIN {view} AS v "
        "USING (number) ORDER BY 1",
        "reading ids",
        len(pairing),
    )
    current().drop_later(f"DROP VIEW IF EXISTS {view}")
    return Traffic(pairing, integers(found["number"].combine_chunks()), found["id"])


def _refuse_names(models: Mapping[str, Predictions], names: list[str]) -> None:
    """Raise DataError where models spell a class in two ways, or a class is called `other` or `unsure`."""
    if taken := [name for name in names if name in (OTHER, UNSURE)]:
        raise DataError(
            f"{models['new'].name}: a class is called {first(taken)}, which as a label says that no class "
            "is right "
            "or known; rename the class"
        )
    known = {role: {*model.table.answers, *(model.classes or ())} for role, model in models.items()}
    spellings: dict[str, str] = {}
    for name in names:
        other = spellings.setdefault(normal_form(name), name)
        if other != name and not any({name, other} <= own for own in known.values()):
            raise DataError(
                f"{models['new'].name}: {first([name])} and {first([other])} are two spellings of one "
                "class, one of "
                "each model; write one spelling in both files"
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
        if self.size is not None and self.size > len(self.traffic):
            raise UsageError(
                f"{option('draw')} {self.size}: predictions differ on {len(self.traffic):,} samples; draw "
                "at most these"
            )
        lacking = (
            [role.upper() for role in ROLES if role not in self.traffic.confidence]
            if self.strata != "none"
            else []
        )
        if lacking:
            raise UsageError(
                f"{option('strata')} confidence: {lacking[0]} has neither `logits` nor `confidence`; add "
                "one of them, "
                "or draw without strata"
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

    @cached_property
    def order(self) -> IntArray:
        """(n,) the drawn disagreements in random order; every beginning has its share of each stratum."""
        # The raw numbers of a bit generator are the same in every version of numpy.
        keys = np.random.Philox(self.seed).random_raw(len(self.traffic))
        shuffled = np.lexsort([keys, self.stratum])
        sizes = np.bincount(self.stratum, minlength=len(self.names))
        # In its stratum of size s, the row of rank r stands at (r + 1/2) / s of the whole.
        rank = np.concatenate([np.arange(size) + 0.5 for size in sizes]) / np.repeat(
            np.maximum(sizes, 1), sizes
        )
        return shuffled[np.argsort(rank, kind="stable")][: len(self)]

    @cached_property
    def inclusion(self) -> FloatArray:
        """(H,) the share of each stratum that is drawn, the probability of each of its rows to be drawn."""
        sizes = np.bincount(self.stratum, minlength=len(self.names))
        return np.bincount(self.stratum[self.order], minlength=len(self.names)) / np.maximum(sizes, 1)

    @cached_property
    def fingerprint(self) -> str:
        """What names the draw: a digest of all that it depends on, its seed, size and strata."""
        traffic, digest = self.traffic, hashlib.sha256()
        ids = traffic.ids.combine_chunks()
        settings = (len(traffic.pairing), traffic.pairing.vocabulary, np.bincount(self.stratum).tolist())
        digest.update(repr(settings).encode())
        for buffer in ids.buffers()[1:]:
            digest.update(buffer)
        for role in ROLES:
            digest.update(traffic.answers(role).astype(np.int32).tobytes())
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
        names = traffic.pairing.vocabulary
        old, new = ([names[code] for code in traffic.answers(role)[chosen].tolist()] for role in ROLES)
        nothing = [None] * len(chosen)
        sure = [
            traffic.confidence[role][chosen].round(6).tolist() if role in traffic.confidence else nothing
            for role in ROLES
        ]
        return [
            {
                "id": sample,
                "old": old[i],
                "new": new[i],
                "old_confidence": sure[0][i],
                "new_confidence": sure[1][i],
                "stratum": self.names[stratum],
                "inclusion": float(self.inclusion[stratum]),
                "path": "" if folder is None else str(folder / sample),
                "fingerprint": f"{self.fingerprint}-{start + i}",
                "label": "",
            }
            for i, (sample, stratum) in enumerate(
                zip(
                    traffic.ids.take(pa.array(chosen)).to_pylist(), self.stratum[chosen].tolist(), strict=True
                )
            )
        ]

    def write_csv(self, stream: IO[bytes], folder: Path | None = None) -> None:
        """Write the drawn rows as CSV; text is escaped so that a spreadsheet runs none of it."""
        for text in self._csv_texts(folder):
            stream.write(text.encode())

    def _csv_texts(self, folder: Path | None) -> Iterator[str]:
        """The text of the CSV: its header, then blocks of rows."""
        yield ",".join(COLUMNS) + "\n"
        for start in range(0, len(self), AT_ONCE):
            block = io.StringIO()
            writer = csv.writer(block, lineterminator="\n")
            for row in self.rows(start, start + AT_ONCE, folder):
                writer.writerow(
                    [as_cell(value) if isinstance(value, str) else value for value in row.values()]
                )
            yield block.getvalue()
