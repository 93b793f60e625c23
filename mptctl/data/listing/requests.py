"""The settings of `mptctl split`, most of which studies share, of `pack`, and of `figure augment`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from mptctl.files.request import (
    DataRoot,
    Flag,
    Json,
    MovedData,
    Overrides,
    RecipeName,
    Request,
    RunRoot,
    argument,
)
from mptctl.names import OnBad, OnDuplicates, Order, PackForm, PlaceKind, Verify


class DivisionSettings(Request):
    """The source of the pictures, their division, and the checks of their files."""

    source: Annotated[str, argument("SOURCE")]
    """characters and digits (embedded), cifar10, cifar100 (as torchvision keeps them), or a place: a folder
    of class folders, in train/ and val/ or without parts (if test/ exists, val/ is for validation); a
    table of paths and labels (.csv, .parquet); tar shards ('DIR/*.tar')."""
    order: Annotated[Order, Flag()] = "given"
    """Take the first classes as old, or random ones."""
    kind: Annotated[PlaceKind | None, Flag(names="--source")] = None
    """Kind of the place, where it is not recognised."""
    label_key: Annotated[str | None, Flag("KEY")] = None
    """Key of the label in the .json of shards, or .txt. (default: .cls, or label)"""
    test_fraction: Annotated[float | None, Flag("PART")] = None
    """Part of each class to hold out as the test part, of a place that has none."""
    val_fraction: Annotated[float | None, Flag("PART")] = None
    """Part of each class's training pictures to hold out. (default: 0.1; for characters 0.2; none if
    val/ and test/ exist)"""
    group: Annotated[str | None, Flag("COLUMN")] = None
    """Column of table, shards or --metadata: one group, such as a patient, lies in one part."""
    verify: Annotated[Verify, Flag()] = "header"
    """Look at each file's header and ends, or decode it all."""
    on_bad: Annotated[OnBad, Flag()] = "fail"
    """Refuse bad files, or keep them out of every part."""
    on_duplicates: Annotated[OnDuplicates, Flag()] = "keep"
    """Keep identical pictures, or keep out training copies of those across parts or labels, and validation
    copies of test pictures."""


class SplitSettings(DivisionSettings):
    """A division, where it is written, and what is said of it."""

    data_root: DataRoot = None
    old_fraction: Annotated[float | None, Flag("PART")] = None
    """Part of the classes that is old, rounded down; 1.0 is an update without new classes. (default: 0.5)"""
    old_classes: Annotated[Path | None, Flag("FILE")] = None
    """Old classes by name, one a line, in the order of the old model's logits."""
    seed: Annotated[int, Flag("N", low=0)] = 0
    """Seed of random order, validation part and drawing."""
    column: Annotated[list[str], Flag("ROLE=NAME")] = Field([])
    """Column of a table that is its path, label, split or id. Repeatable."""
    metadata: Annotated[Path | None, Flag("FILE")] = None
    """Columns of the pictures by `id`, in a form that predictions have."""
    class_labels: Annotated[Path | None, Flag("FILE")] = None
    """Names for people beside class ids: a line has an id, a blank and a name."""
    download: Annotated[bool, Flag()] = False
    """Fetch CIFAR where it is not in the data root."""
    report: Annotated[Path | None, Flag("FILE")] = None
    """An HTML page: counts, sizes, and pictures of each class."""
    run_root: RunRoot = Path("runs")
    overwrite: Annotated[bool, Flag()] = False
    """Replace an existing split."""
    as_json: Json = False


class PackSettings(Request):
    """The source of a packed copy, and its form."""

    source: Annotated[str, argument("SOURCE")]
    """Folders of classes, Parquet files with pictures ('DIR/*.parquet'), tar shards, a table of paths (.csv,
    .parquet), or a folder that datasets saved; also at s3://, gs://, https://."""
    out: Annotated[Path, argument("OUT")]
    """The copy: a new folder, or one that this command began."""
    short_side: Annotated[int | None, Flag("PX", low=1)] = None
    """Shorter side of a picture at most; smaller ones stay as they are. Without it all do."""
    to: Annotated[PackForm, Flag()] = "folder"
    """Folders of classes, or tar shards of 1,000 pictures as webdataset reads them."""
    kind: Annotated[str, Flag("NAME", names="--source")] = ""
    """Kind of SOURCE, where it is not recognised."""
    column: Annotated[list[str], Flag("ROLE=NAME")] = Field([])
    """Column that is image, path, label, split or id; of shards the label's key. Repeatable."""
    as_json: Json = False


class SheetRequest(Request):
    """The training pictures to draw as the model sees them."""

    recipe: RecipeName = None
    overrides: Overrides = Field([])
    pictures: Annotated[int, Flag("N", low=2, high=200)] = 32
    """Pictures on the sheet."""
    epoch: Annotated[int, Flag("N", low=0)] = 0
    """Epoch whose first pictures are drawn, from 0."""
    out: Annotated[Path | None, Flag("FILE")] = None
    """A .png or .svg file. (default: augment.png below the run root)"""
    run_root: RunRoot = Path("runs")
    data_root: MovedData = None
