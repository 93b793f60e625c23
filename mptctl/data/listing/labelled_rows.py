"""Rows of a table or of shards: their classes, parts and order, and what is wrong with each that is bad."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.data.listing.image_folder import PART_WORDS
from mptctl.data.manifest import PART_CODES, TEST, TRAIN
from mptctl.errors import DataError, did_you_mean, some
from mptctl.files import read_names

# Files beside shards or a table that name the classes, in the order of their numbers.
_NAME_FILES = ("classes.txt", "classnames.txt")
_DATASET_INFO = "dataset_info.json"
# The label of all rows where labels are not looked at.
ANY = "any"


@dataclass
class LabelledRows:
    """The rows of a table or of shards, in its own order.

    Attributes:
        ids: one a row.
        labels: as text; "" where a row has none.
        parts: `PART_WORDS` of each row; empty where the source has no parts.
        where: the place of a row, for messages.
        problems: by row, what is wrong with it.
        ids_in_parts: two parts may have the same id, as where the shards of each part count from 0.
    """

    ids: list[str]
    labels: list[str]
    parts: list[str]
    where: Callable[[int], str]
    problems: dict[int, str] = field(default_factory=dict)
    ids_in_parts: bool = False


class ArrangedRows(NamedTuple):
    """Rows in the order of a manifest.

    Attributes:
        order: (n,) rows of the source, by part (train, val, test), class, and id.
        class_names: text in its own order, numbers in theirs, or as the file beside the data has them.
        labels: (n,) int32 index into ``class_names``; 0 of a bad row.
        parts: (n,) uint8 TRAIN, VAL or TEST; a bad row has the part that it says.
        problems: by place in ``order``, what is wrong with a row.
    """

    order: NDArray[np.int64]
    class_names: tuple[str, ...]
    labels: NDArray[np.int32]
    parts: NDArray[np.uint8]
    problems: dict[int, str]


def arrange(rows: LabelledRows, known: Sequence[str] | None, what: str) -> ArrangedRows:
    """Find classes, parts and order of rows; adds what is wrong with bad ones to `LabelledRows.problems`.

    Args:
        rows: of a table or of shards.
        known: class names in the order of their numbers, from a file beside the data; None: there is none.
        what: the source, for messages.

    Raises:
        DataError: no row, or labels that are nearly all different, which are captions or ids.
    """
    if not rows.ids:
        raise DataError(f"{what}: holds no picture; name a source that has some")
    _mark_blank(rows)
    _mark_other_spellings(rows)
    codes = _part_codes(rows)
    _mark_repeated_ids(rows, codes)
    counts = Counter(label for row, label in enumerate(rows.labels) if row not in rows.problems)
    # Of such classes not even half have a second picture, which the test part would need.
    if 2 * len(counts) > len(rows.ids):
        raise DataError(
            f"{what}: its labels are nearly all different ({len(counts):,} in {len(rows.ids):,} rows, such "
            f"as {some(counts)}): captions or ids; name the labels with --column label=NAME or "
            "--label-key KEY"
        )
    class_names, by_label = _classes(counts, known)
    for row, label in enumerate(rows.labels):
        if row not in rows.problems and label not in by_label:
            rows.problems[row] = f"label {label} is none of the {len(class_names)} classes that are named"
    labels = [0 if row in rows.problems else by_label[label] for row, label in enumerate(rows.labels)]
    keys = list(zip(codes, labels, rows.ids, strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    bad = {place: rows.problems[row] for place, row in enumerate(order) if row in rows.problems}
    return ArrangedRows(
        order=np.array(order, dtype=np.int64),
        class_names=class_names,
        labels=np.array(labels, dtype=np.int32)[order],
        parts=np.array(codes, dtype=np.uint8)[order],
        problems=bad,
    )


def names_beside(folders: Iterable[Path]) -> list[str] | None:
    """Class names in the order of their numbers, from the first file with such that lies in the folders.

    Raises:
        DataError: it cannot be read, or names no classes.
    """
    for folder in folders:
        for name in _NAME_FILES:
            if (folder / name).is_file():
                return read_names(folder / name, "class names")
        if (folder / _DATASET_INFO).is_file():
            return _names_of_dataset(folder / _DATASET_INFO)
    return None


def _names_of_dataset(path: Path) -> list[str] | None:
    """Class names in the JSON that ``datasets`` writes beside its data; None unless one feature has them."""
    try:
        features = json.loads(path.read_text(encoding="utf-8")).get("features") or {}
        named = [each["names"] for each in features.values() if isinstance(each, dict) and each.get("names")]
    except (OSError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: cannot be read as JSON of features; repair it, or move it away") from error
    return [str(name) for name in named[0]] if len(named) == 1 else None


def _mark_blank(rows: LabelledRows) -> None:
    """Add a problem for each row whose label or id is empty."""
    for row, label in enumerate(rows.labels):
        if row not in rows.problems and not label.strip():
            rows.problems[row] = "its label is empty"
    for row, sample in enumerate(rows.ids):
        if row not in rows.problems and not sample.strip():
            rows.problems[row] = "its id is empty"


def _mark_other_spellings(rows: LabelledRows) -> None:
    """Add a problem for each row whose label differs from a more frequent one by case or blanks alone."""
    counts = Counter(label for row, label in enumerate(rows.labels) if row not in rows.problems)
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for label in counts:
        alike["".join(label.split()).casefold()].append(label)
    better: dict[str, str] = {}
    for spellings in alike.values():
        chosen = min(spellings, key=lambda label: (-counts[label], label))
        better |= dict.fromkeys((label for label in spellings if label != chosen), chosen)
    for row, label in enumerate(rows.labels if better else ()):
        if label in better and row not in rows.problems:
            kept = better[label]
            rows.problems[row] = (
                f"label {label!r} differs by case or blanks alone from {kept!r}, which {counts[kept]:,} rows "
                "have"
            )


def _part_codes(rows: LabelledRows) -> list[int]:
    """The part of each row: TRAIN where the source has no parts. An unknown word adds a problem.

    Without a test part the validation part becomes the test part.
    """
    if not rows.parts:
        return [TRAIN] * len(rows.ids)
    code_of = PART_CODES if "test" in rows.parts else {**PART_CODES, "val": TEST}
    codes = {word: code_of[part] for word, part in PART_WORDS.items()}
    for row, word in enumerate(rows.parts):
        if word not in codes and row not in rows.problems:
            meant = did_you_mean(word, PART_WORDS)
            rows.problems[row] = f"part {word!r} is none of {', '.join(PART_WORDS)}{meant}"
    return [codes.get(word, TRAIN) for word in rows.parts]


def _mark_repeated_ids(rows: LabelledRows, codes: Sequence[int]) -> None:
    """Add a problem for each row whose id an earlier row has, in the same part where ids are per part."""
    first: dict[tuple[int, str], int] = {}
    for row, sample in enumerate(rows.ids):
        if row in rows.problems:
            continue
        before = first.setdefault((codes[row] if rows.ids_in_parts else 0, sample), row)
        if before != row:
            rows.problems[row] = f"id {sample} is there already: {rows.where(before)}"


def _classes(
    counts: Mapping[str, int], known: Sequence[str] | None
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Class names, and the index of each label among them; a label that `known` does not name is left out.

    Labels that are all whole numbers are sorted as numbers, or index into `known`.
    """
    whole = [label for label in counts if label.removeprefix("-").isdecimal()]
    numbers = {label: int(label) for label in whole if str(int(label)) == label}
    are_numbers = len(numbers) == len(counts)
    if known is None:
        names = sorted(counts, key=numbers.__getitem__) if are_numbers else sorted(counts)
        return tuple(names), {name: i for i, name in enumerate(names)}
    if are_numbers:
        return tuple(known), {label: i for label, i in numbers.items() if 0 <= i < len(known)}
    return tuple(known), {name: i for i, name in enumerate(known)}
