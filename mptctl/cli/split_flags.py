"""Flags of `split`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.names import OnBad, OnDuplicates, Order, PlaceKind, Verify


@dataclass(frozen=True, kw_only=True)
class SplitFlags:
    """The source, its division, and the checks of its pictures."""

    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="characters and digits (embedded), cifar10, cifar100 (as torchvision keeps them), or a "
            "place: a folder of class folders, in train/ and val/ or without parts (with test/ too, val/ is "
            "the validation part); a table of paths and labels (.csv, .parquet); tar shards ('DIR/*.tar').",
        ),
    ]
    data_root: opt.DataRoot = None
    old_fraction: Annotated[
        float | None,
        typer.Option(
            "--old-fraction",
            metavar="PART",
            help="Part of the classes that is old, rounded down; 1.0 is an update without new classes. "
            "(default: 0.5)",
        ),
    ] = None
    old_classes: Annotated[
        Path | None,
        typer.Option(
            "--old-classes",
            metavar="FILE",
            help="Old classes by name, one a line, in the order of the old model's logits.",
        ),
    ] = None
    order: Annotated[
        Order, typer.Option("--order", help="Take the first classes as old, or random ones.")
    ] = "given"
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            help="Seed of random order, validation part and drawing.",
        ),
    ] = 0
    kind: Annotated[
        PlaceKind | None,
        typer.Option("--source", help="Kind of the place, where it is not recognised.", show_default=False),
    ] = None
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="ROLE=NAME",
            help="Column of a table that is its path, label, split, id or group. Repeatable.",
        ),
    ] = None
    label_key: Annotated[
        str | None,
        typer.Option(
            "--label-key",
            metavar="KEY",
            help="Key of the label in the .json of shards, or .txt. (default: .cls, or label)",
        ),
    ] = None
    test_fraction: Annotated[
        float | None,
        typer.Option(
            "--test-fraction",
            metavar="PART",
            help="Part of each class to hold out as the test part, of a place that has none.",
        ),
    ] = None
    val_fraction: Annotated[
        float | None,
        typer.Option(
            "--val-fraction",
            metavar="PART",
            help="Part of each class's training pictures to hold out. (default: 0.1; of characters 0.2; with "
            "test/ beside val/ none)",
        ),
    ] = None
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="COLUMN",
            help="Column of table, shards or --metadata: one group, such as a patient, lies in one part.",
        ),
    ] = None
    metadata: Annotated[
        Path | None,
        typer.Option(
            "--metadata",
            metavar="FILE",
            help="Columns of the pictures by `id`, in a form that predictions have.",
        ),
    ] = None
    verify: Annotated[
        Verify, typer.Option("--verify", help="Look at each file's header and ends, or decode it all.")
    ] = "header"
    on_bad: Annotated[
        OnBad, typer.Option("--on-bad", help="Refuse bad files, or keep them out of every part.")
    ] = "fail"
    on_duplicates: Annotated[
        OnDuplicates,
        typer.Option(
            "--on-duplicates",
            help="Keep identical pictures, or keep out training copies of those across parts or labels, and "
            "validation copies of test pictures.",
        ),
    ] = "keep"
    class_labels: Annotated[
        Path | None,
        typer.Option(
            "--class-labels",
            metavar="FILE",
            help="Names for people beside class ids, an id and a name a line (text, or .csv).",
        ),
    ] = None
    download: Annotated[
        bool, typer.Option("--download", help="Fetch CIFAR where it is not in the data root.")
    ] = False
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="An HTML page: counts, sizes, pictures of each class, and some as a model sees them.",
        ),
    ] = None
    run_root: opt.RunRoot = Path("runs")
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing split.")] = False
    as_json: opt.Json = False
