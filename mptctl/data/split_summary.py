"""Counts the pictures of a split, for the table and the JSON of `mptctl split`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mptctl.data.duplicates import Duplicates
from mptctl.data.manifest import BAD, PART_CODES, TRAIN, VAL
from mptctl.data.split import Split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.errors import some
from mptctl.files import Model
from mptctl.names import Order, Part

# Sets of identical pictures that are listed on the terminal at most.
LISTED = 50


class PartCounts(Model):
    """Numbers of pictures of one part."""

    old: int = Field(description="pictures of old classes")
    new: int = Field(description="pictures of new classes")
    all: int = Field(description="all pictures")


class ClassCounts(Model):
    """Numbers of pictures of one class in each part."""

    label: str = Field(description="class id")
    train: int = Field(description="training pictures")
    val: int = Field(description="validation pictures")
    test: int = Field(description="test pictures")


class PictureSizes(Model):
    """Width and height of three pictures, in pixels, out of all pictures ordered by area."""

    smallest: tuple[int, int] = Field(description="the smallest picture")
    median: tuple[int, int] = Field(description="the picture in the middle of the order")
    largest: tuple[int, int] = Field(description="the largest picture")


class SplitSummary(Model):
    """The object that ``mptctl split --json`` prints."""

    path: str = Field(description="the split file")
    kept: bool = Field(description="true where the split existed already, and is unchanged")
    source: str = Field(description="where the pictures come from")
    data_root: str | None = Field(description="folder of the data; null for the embedded sources")
    order: Order = Field(description="order of the classes before they were divided")
    seed: int = Field(description="seed of the random order, the validation part and the characters")
    num_old: int = Field(description="number of old classes")
    num_new: int = Field(description="number of new classes")
    old_classes: list[str] = Field(description="old classes, in the order of the logits")
    new_classes: list[str] = Field(description="new classes, in the order of the logits that follow")
    class_labels: dict[str, str] | None = Field(None, description="readable names by class id")
    parts: dict[Part, PartCounts] = Field(description="pictures in each part")
    by_class: list[ClassCounts] = Field([], description="pictures of each class, in the order of the logits")
    imbalance: float = Field(
        1.0, description="training pictures of the largest class over those of the smallest"
    )
    sizes: PictureSizes | None = Field(None, description="sizes of all pictures of all parts")
    rotated: int = Field(0, description="pictures with an EXIF rotation, which data.exif applies or ignores")
    quarantined: list[str] = Field(description="pictures that are kept out, each with its fault")
    duplicates: Duplicates | None = Field(None, description="identical pictures; null without any")
    notes: list[str] = Field([], description="which folder is which part, and classes that a part lacks")
    fingerprint: str = Field(description="digest that checkpoints of this split carry")


def summarise(split: Split, *, kept: bool) -> SplitSummary:
    """Make the summary of a split.

    Args:
        split: the split.
        kept: True where the split existed before the call of `mptctl split`.
    """
    request = split.file.request
    manifest = split.manifest
    classes = split.classes
    names = classes.names
    part_and_class = manifest.parts.astype(np.int64) * len(names) + split.labels
    counts = np.bincount(part_and_class, minlength=(BAD + 1) * len(names)).reshape(BAD + 1, len(names))
    by_part = {part: counts[code] for part, code in PART_CODES.items()}
    rotated = int(np.count_nonzero(manifest.is_turned & (manifest.parts != BAD)))
    return SplitSummary(
        path=str(split.run_root / SPLIT_NAME),
        kept=kept,
        source=request.source,
        data_root=request.data_root,
        order=request.order,
        seed=request.seed,
        num_old=classes.num_old,
        num_new=len(classes.new),
        old_classes=list(classes.old),
        new_classes=list(classes.new),
        class_labels=split.file.class_labels,
        parts={part: _count_part(of_class, classes.num_old) for part, of_class in by_part.items()},
        by_class=[
            ClassCounts(label=label, train=train, val=val, test=test)
            for label, (train, val, test, _) in zip(names, counts.T.tolist(), strict=True)
        ],
        imbalance=float(counts[TRAIN].max() / counts[TRAIN].min()),
        sizes=_find_sizes(split),
        rotated=rotated,
        quarantined=split.file.quarantined,
        duplicates=split.file.duplicates,
        notes=[
            *_describe_folders(split),
            *_describe_rotated(rotated),
            *_describe_identical(split.file.duplicates),
            *_warn_of_empty_validation(request.val_fraction, counts),
            *_warn_of_empty_classes(names, by_part),
        ],
        fingerprint=split.fingerprint,
    )


def _count_part(of_class: NDArray[np.int64], num_old: int) -> PartCounts:
    """Sum up the pictures of each class of one part, of which the first ``num_old`` are old."""
    old, total = int(of_class[:num_old].sum()), int(of_class.sum())
    return PartCounts(old=old, new=total - old, all=total)


def _find_sizes(split: Split) -> PictureSizes:
    """Find the sizes of the smallest, the median and the largest picture of the split, by area."""
    manifest = split.manifest
    used = np.flatnonzero(manifest.parts != BAD)
    widths = manifest.widths[used].astype(np.int64)
    heights = manifest.heights[used].astype(np.int64)
    by_area = np.argsort(widths * heights, kind="stable")
    places = by_area[[0, len(by_area) // 2, -1]]
    smallest, median, largest = zip(widths[places].tolist(), heights[places].tolist(), strict=True)
    return PictureSizes(smallest=smallest, median=median, largest=largest)


def _describe_folders(split: Split) -> list[str]:
    """Say which folder of an image folder is which part; [] for other sources, and with --test-fraction."""
    if split.file.source != "imagefolder" or split.file.request.test_fraction is not None:
        return []
    words: dict[Part, str] = {"train": "for training", "val": "for validation", "test": "for the test"}
    lines: list[str] = []
    for part, use in words.items():
        rows = split.indices(part)
        if len(rows):
            folder = split.manifest.relative_path(int(rows[0])).partition("/")[0]
            part_of = "part of " if part == "val" and folder == "train" else ""
            lines.append(f"{part_of}{folder}/ is {use}")
    return lines


def list_identical(duplicates: Duplicates | None) -> list[str]:
    """Return a line for each set of identical pictures across parts or labels: the first `LISTED` sets.

    A last line says how many more sets there are.
    """
    if duplicates is None:
        return []
    lines = []
    for pictures in duplicates.listed[:LISTED]:
        members = [f"{picture.id} ({picture.part}, {picture.label})" for picture in pictures]
        lines.append(", ".join(members))
    more = len(duplicates.listed) - len(lines)
    return [*lines, f"{more:,} more sets stand in {SPLIT_NAME}, under duplicates"] if more else lines


def _describe_rotated(rotated: int) -> list[str]:
    """Say how many pictures have an EXIF rotation; [] for none."""
    if not rotated:
        return []
    pictures = "picture has" if rotated == 1 else "pictures have"
    return [f"{rotated:,} {pictures} an EXIF rotation, which is ignored unless data.exif=apply"]


def _describe_identical(duplicates: Duplicates | None) -> list[str]:
    """Say how many pictures are identical; warn of copies across parts or labels that are not kept out."""
    if duplicates is None:
        return []
    note = f"{duplicates.pictures:,} pictures are identical to others"
    if not duplicates.listed:
        return [f"{note}, none across parts or labels"]
    sets = "set" if duplicates.across_parts == 1 else "sets"
    note += f": {duplicates.across_parts:,} {sets} across parts, {duplicates.across_labels:,} across labels"
    if duplicates.kept_out:
        return [f"{note}; {duplicates.kept_out:,} copies are kept out"]
    return [
        f"warning: {note}; --on-duplicates quarantine keeps training copies out, and validation copies of "
        "test pictures"
    ]


def _warn_of_empty_validation(asked: float, counts: NDArray[np.int64]) -> list[str]:
    """Warn where a validation part was asked for, and its share of each class rounds to no picture."""
    if not asked or counts[VAL].any():
        return []
    most = int(counts[TRAIN].max())
    smallest = math.ceil(5000 / most) / 10000  # half a picture of the largest class, which rounds to one
    return [
        f"warning: --val-fraction {asked:g} of at most {most:,} training pictures a class rounds to none, "
        f"so there is no validation part; hold out at least {smallest:g}"
    ]


def _warn_of_empty_classes(names: Sequence[str], by_part: Mapping[Part, NDArray[np.int64]]) -> list[str]:
    """Warn of classes without a validation or test picture, where that part has pictures at all."""
    notes = []
    words: dict[Part, str] = {"val": "validation", "test": "test"}
    for part, word in words.items():
        without = [names[label] for label in np.flatnonzero(by_part[part] == 0).tolist()]
        if without and by_part[part].any():
            notes.append(f"warning: no {word} picture of {some(without)}")
    return notes
