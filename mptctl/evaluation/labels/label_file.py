"""Labels of drawn rows: read from a file, matched with the draw, and each held against both answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, UsageError, did_you_mean
from mptctl.evaluation.labels.draw import OTHER, UNSURE, Draw, Strata, Traffic, cell_text
from mptctl.evaluation.labels.sampling import Stratum
from mptctl.evaluation.limits import Looks
from mptctl.evaluation.reading.columns import explaining
from mptctl.evaluation.reading.readers import Content, find_parts, form_of
from mptctl.evaluation.reading.spreadsheet_cells import as_cell
from mptctl.files.explained import shown

LABELS = Content("label file", "give the file that disagree --out wrote, with labels")
_FINGERPRINT = re.compile(r"(draw-[0-9a-f]{16}-\d+-\d+-(?:none|confidence))-(\d+)")
# The meanings of a label for a drawn row: a class that neither model predicts, one in no list, and so on.
NEITHER, FOREIGN, NEGATIVE, POSITIVE, MAYBE, MISSING = range(6)


class LabelRow(NamedTuple):
    """A labelled row of a file: where it stands, its draw, its place there, its id if there, its label."""

    where: str
    draw: str
    place: int
    id: str | None
    label: str


def read_label_file(path: Path) -> list[LabelRow]:
    """Read the labelled rows of a draw, of any form: columns `draw`, `label` and, if there, `id`.

    Raises:
        DataError: there is no file, a column is missing, a label is of no draw or of another one, or
            nothing is labelled.
        UsageError: the file has another ending.
    """
    rows: list[LabelRow] = []
    for part in find_parts(path, LABELS):
        number = 0
        with explaining(part):
            headers = form_of(part).headers(part)
            if missing := [name for name in ("draw", "label") if name not in headers]:
                raise DataError(f"{part}: no column is called `{missing[0]}`; {LABELS.remedy}")
            wanted = [name for name in ("draw", "label", "id") if name in headers]
            with closing(form_of(part).batches(part, wanted)) as batches:
                for batch in batches:
                    cells = {name: [cell_text(value) for value in batch[name].to_pylist()] for name in wanted}
                    ids = cells.get("id", [None] * len(cells["label"]))
                    for key, label, sample in zip(cells["draw"], cells["label"], ids, strict=True):
                        number += 1
                        if label:
                            rows.append(_row(f"{part}: row {number}", key, label, sample))
    if not rows:
        raise DataError(
            f"{path}: no row has a label; write the right class, {OTHER} or {UNSURE} into `label`"
        )
    for row in rows:
        if row.draw != rows[0].draw:
            raise DataError(
                f"{row.where} is of another draw than {rows[0].where}; give the labels of one draw"
            )
    return rows


def _spellings(name: str) -> set[str]:
    """A name as `cell_text` reads it, from a file that disagree wrote and from any other."""
    return {cell_text(name), cell_text(as_cell(name))}


def _row(where: str, key: str, label: str, sample: str | None) -> LabelRow:
    """Make a row of a label file; DataError where its fingerprint is none."""
    found = _FINGERPRINT.fullmatch(key)
    if found is None:
        raise DataError(
            f"{where}: {shown(key) or 'an empty cell'} is no fingerprint of a drawn row; leave the "
            "column `draw` as disagree wrote it"
        )
    return LabelRow(where, found[1], int(found[2]), sample, label)


def redraw(traffic: Traffic, path: Path, rows: Sequence[LabelRow]) -> Draw:
    """Make the draw of a label file again; DataError where predictions are not those of the draw."""
    named = rows[0].draw
    seed, size, strata = named.split("-")[2:]
    with suppress(UsageError):  # fewer predictions differ, or the confidences that made strata are not there
        draw = Draw(traffic, int(seed), int(size), cast(Strata, strata))
        if draw.fingerprint == named:
            return draw
    raise DataError(
        f"{path}: these predictions are not those that its rows were drawn from ({named}); give the same "
        "two files, or draw again"
    )


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of the labels of a beginning of a draw.

    Attributes:
        draw: the rows.
        said: (m,) what the label of each of the first m drawn rows says; a missing one may be anything.
    """

    draw: Draw
    said: NDArray[np.int8]

    def count(self, *kinds: int) -> int:
        """Count the labels of some kinds."""
        return int(np.isin(self.said, kinds).sum())

    def advise_more(self, looks: Looks) -> str:
        """Say how an undecided gate may come to an answer: by more labels, a larger draw or more traffic."""
        labelled, drawn, disagreements = len(self.said), len(self.draw), len(self.draw.traffic)
        if labelled == disagreements:
            return "all rows are labelled: it takes more traffic"
        advice = f"label more of the {drawn - labelled:,} other rows"
        if labelled == drawn:
            advice = (
                f"all {drawn:,} rows of the draw are labelled: draw more of the {disagreements:,} with "
                "disagree --draw, and copy these labels into it"
            )
        level = "" if looks == "any" else " (a gate that is repeated on more labels no longer has its level)"
        return advice + level

    def strata(self, kind: int, chosen: NDArray[np.bool_] | None = None) -> list[Stratum]:
        """The strata with their labels, of which those of a kind count as flips.

        Args:
            kind: `NEGATIVE` or `POSITIVE`.
            chosen: (D,) True for disagreements of a slice; None: all.
        """
        labelled = self.draw.order[: len(self.said)]
        inside = slice(None) if chosen is None else chosen[labelled]
        labelled = labelled[inside]
        said = self.said[inside]
        of_strata = zip(
            self.draw.sizes(slice(None) if chosen is None else chosen).tolist(),
            self.draw.sizes(labelled).tolist(),
            self.draw.sizes(labelled[said == kind]).tolist(),
            self.draw.sizes(labelled[np.isin(said, (MAYBE, MISSING))]).tolist(),
            strict=True,
        )
        return [Stratum(rows, labels, flips, unsure) for rows, labels, flips, unsure in of_strata]


def match_labels(draw: Draw, rows: Sequence[LabelRow]) -> Outcomes:
    """Hold the labels of rows of a draw against both models' answers.

    Raises:
        DataError: a row was not drawn, has another id than in the draw or two labels, or a label is no class.
    """
    names = draw.traffic.pairing.vocabulary
    known = {written: index for index, name in enumerate(names) if name for written in _spellings(name)}
    old, new = (draw.traffic.answers(role) for role in ("old", "new"))
    said = np.full(len(draw), MISSING, dtype=np.int8)
    given: dict[int, LabelRow] = {}
    for row in rows:
        if row.place >= len(draw):
            raise DataError(f"{row.where} was not drawn: the draw has {len(draw):,} rows; remove it")
        chosen = int(draw.order[row.place])
        drawn = str(draw.traffic.ids[chosen].as_py())
        if row.id is not None and row.id not in _spellings(drawn):
            raise DataError(
                f"{row.where} was not drawn: its id is {shown(row.id)}, and {shown(drawn)} was drawn "
                "there; restore the id, or leave the column out (a spreadsheet may have changed it)"
            )
        before = given.setdefault(row.place, row)
        if before.label != row.label:
            raise DataError(
                f"{row.where}: {shown(drawn)} is labelled {shown(row.label)}, and "
                f"{shown(before.label)} before; keep one label"
            )
        said[row.place] = _outcome(row, known, int(old[chosen]), int(new[chosen]))
    return Outcomes(draw, said[: max(given) + 1])


def _outcome(row: LabelRow, known: Mapping[str, int], old: int, new: int) -> int:
    """Tell the meaning of a label for a row with these two answers; DataError where it is no class."""
    if row.label in (OTHER, UNSURE):
        return FOREIGN if row.label == OTHER else MAYBE
    # Programs write a column of integers with empty cells as floats.
    label = known.get(row.label, known.get(re.sub(r"\.0$", "", row.label)))
    if label is None:
        raise DataError(
            f"{row.where}: {shown(row.label)} is no class of either model{did_you_mean(row.label, known)}; "
            f"write a class, {OTHER} (both are wrong) or {UNSURE}"
        )
    if label == old:
        return NEGATIVE
    return POSITIVE if label == new else NEITHER


def rows_of_mapping(draw: Draw, labels: Mapping[object, object]) -> list[LabelRow]:
    """The rows of labels by id, as a Python program gives them; DataError for an id that was not drawn."""
    places = {sample: place for place, sample in enumerate(draw.traffic.ids.take(draw.order).to_pylist())}
    rows = []
    for sample, label in labels.items():
        where = f"labels: {shown(str(sample))}"
        if str(sample) not in places:
            raise DataError(f"{where} was not drawn; give labels of `rows` of this draw")
        if text := cell_text(label):
            rows.append(LabelRow(where, draw.fingerprint, places[str(sample)], None, text))
    if not rows:
        raise DataError("labels: none is given; give {id: label}")
    return rows
