"""The contents of a split in numbers: for a person's table and a program's JSON."""

from __future__ import annotations

import math

import numpy as np
from pydantic import Field

from mptctl.data.duplicates import Duplicates
from mptctl.data.holding_out import shares_sentence
from mptctl.data.manifest import BAD
from mptctl.data.split import Split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.errors import some
from mptctl.files import Model
from mptctl.names import Order, Part

# Sets of identical pictures that are listed on the terminal.
LISTED = 50


class PartCounts(Model):
    """Pictures of one part."""

    old: int = Field(description="pictures of old classes")
    new: int = Field(description="pictures of new classes")
    all: int = Field(description="all pictures")


class ClassCounts(Model):
    """Pictures of one class in each part."""

    label: str = Field(description="the class")
    train: int = Field(description="pictures for training")
    val: int = Field(description="for validation")
    test: int = Field(description="for the test")


class PictureSizes(Model):
    """Sizes of pictures, width and height in pixels, ordered by area."""

    smallest: tuple[int, int] = Field(description="of the smallest picture")
    median: tuple[int, int] = Field(description="of the one in the middle")
    largest: tuple[int, int] = Field(description="of the largest picture")


class SplitSummary(Model):
    """The object that ``mptctl split --json`` prints."""

    path: str = Field(description="the split file")
    kept: bool = Field(description="whether it was there already, and is unchanged")
    source: str = Field(description="where the pictures come from")
    data_root: str | None = Field(description="folder of the data; null for the embedded sources")
    order: Order = Field(description="order of the classes before they were divided")
    seed: int = Field(description="seed of the random order, the validation part and the characters")
    num_old: int = Field(description="number of old classes")
    num_new: int = Field(description="number of new classes")
    old_classes: list[str] = Field(description="old classes, in the order of the logits")
    new_classes: list[str] = Field(description="new classes, in the order of the logits that follow")
    class_labels: dict[str, str] | None = Field(None, description="names for people by class id")
    parts: dict[Part, PartCounts] = Field(description="pictures in each part")
    by_class: list[ClassCounts] = Field([], description="pictures of each class, in the order of the logits")
    imbalance: float = Field(1.0, description="training pictures of the largest class over the smallest's")
    sizes: PictureSizes | None = Field(None, description="sizes of all pictures of all parts")
    quarantined: list[str] = Field(description="pictures that are kept out, each with what is wrong with it")
    duplicates: Duplicates | None = Field(None, description="identical pictures; null where there are none")
    notes: list[str] = Field([], description="which folder is which part, and classes that a part lacks")
    fingerprint: str = Field(description="digest that checkpoints of this split carry")


def summarise(split: Split, *, kept: bool) -> SplitSummary:
    """Count what a split holds.

    Args:
        split: the split.
        kept: whether it was there before.
    """
    request, classes = split.file.request, split.classes
    parts: dict[Part, PartCounts] = {}
    for part in ("train", "val", "test"):
        everything, old = len(split.indices(part)), len(split.indices(part, classes.num_old))
        parts[part] = PartCounts(old=old, new=everything - old, all=everything)
    by_class = _by_class(split)
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
        parts=parts,
        by_class=by_class,
        imbalance=max(each.train for each in by_class) / min(each.train for each in by_class),
        sizes=_sizes(split),
        quarantined=split.file.quarantined,
        duplicates=split.file.duplicates,
        notes=[
            *_folders(split),
            *_by_groups(split, by_class),
            *_identical(split.file.duplicates),
            *_held_out_nothing(split),
            *_lacking(split),
        ],
        fingerprint=split.fingerprint,
    )


def _by_class(split: Split) -> list[ClassCounts]:
    names = split.classes.names
    parts: tuple[Part, ...] = ("train", "val", "test")
    counts = [np.bincount(split.labels[split.indices(part)], minlength=len(names)).tolist() for part in parts]
    return [
        ClassCounts(label=label, train=train, val=val, test=test)
        for label, train, val, test in zip(names, *counts, strict=True)
    ]


def _sizes(split: Split) -> PictureSizes:
    manifest = split.manifest
    used = np.flatnonzero((manifest.parts != BAD) & (split.labels >= 0))
    widths, heights = manifest.widths[used].astype(np.int64), manifest.heights[used].astype(np.int64)
    order = np.argsort(widths * heights, kind="stable")
    smallest, median, largest = (
        (int(widths[row]), int(heights[row])) for row in order[[0, len(order) // 2, -1]]
    )
    return PictureSizes(smallest=smallest, median=median, largest=largest)


def _folders(split: Split) -> list[str]:
    """Say which folder of an image folder became which part, by the paths of its pictures."""
    if split.file.source != "imagefolder" or split.file.request.test_fraction is not None:
        return []
    words: dict[Part, str] = {"train": "for training", "val": "for validation", "test": "for the test"}
    found: list[str] = []
    for part, what in words.items():
        rows = split.indices(part)
        if len(rows):
            folder = split.manifest.relative_path(int(rows[0])).partition("/")[0]
            held_out = "part of " if part == "val" and folder == "train" else ""
            found.append(f"{held_out}{folder}/ is {what}")
    return found


def identical_pictures(found: Duplicates | None) -> list[str]:
    """A line for each set of identical pictures across parts or labels, for the first `LISTED` of them."""
    if found is None:
        return []
    lines = [
        f"identical: {', '.join(f'{each.id} ({each.part}, {each.label})' for each in pictures)}"
        for pictures in found.listed[:LISTED]
    ]
    more = len(found.listed) - len(lines)
    return [*lines, f"{more:,} more sets stand in {SPLIT_NAME}, under duplicates"] if more else lines


def _by_groups(split: Split, by_class: list[ClassCounts]) -> list[str]:
    """A sentence on how near a validation part that is held out by groups came to the part asked for."""
    request = split.file.request
    if request.group is None or not request.val_fraction:
        return []
    held = np.array([each.val for each in by_class])
    rest = np.array([each.train for each in by_class])
    return [shares_sentence(held, held + rest, split.classes.names, request.val_fraction, request.group)]


def _identical(found: Duplicates | None) -> list[str]:
    """A sentence on identical pictures; a warning where they lie in several parts or have several labels."""
    if found is None:
        return []
    said = f"{found.pictures:,} pictures are identical to others"
    if not found.listed:
        return [f"{said}, none across parts or labels"]
    sets = "set" if found.across_parts == 1 else "sets"
    said += f": {found.across_parts:,} {sets} across parts, {found.across_labels:,} across labels"
    if found.kept_out:
        return [f"{said}; {found.kept_out:,} copies are kept out"]
    return [f"warning: {said}; --on-duplicates quarantine keeps training copies out"]


def _held_out_nothing(split: Split) -> list[str]:
    """A warning where a part was to be held out, and rounded to no picture of any class."""
    asked = split.file.request.val_fraction
    if not asked or len(split.indices("val")):
        return []
    most = int(np.bincount(split.labels[split.indices("train")]).max())
    return [
        f"warning: --val-fraction {asked:g} of at most {most:,} training pictures a class rounds to none, "
        f"so there is no validation part; hold out at least {math.ceil(5000 / most) / 10000:g}"
    ]


def _lacking(split: Split) -> list[str]:
    """Classes of which a part has no picture, where the part has pictures at all."""
    notes = []
    parts: tuple[Part, ...] = ("val", "test")
    for part in parts:
        counts = np.bincount(split.labels[split.indices(part)], minlength=len(split.classes.names))
        without = [split.classes.names[i] for i in np.flatnonzero(counts == 0)]
        if without and counts.any():
            notes.append(f"warning: no {'validation' if part == 'val' else part} picture of {some(without)}")
    return notes
