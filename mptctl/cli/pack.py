"""`mptctl pack`: a copy of pictures of any source with the same ids, smaller or in shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.names import PackForm


@prints({"--json": "mptctl.data.packing.records:PackReport"})
def pack(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Folders of classes, Parquet files with pictures ('DIR/*.parquet'), tar shards, a table of "
            "paths (.csv, .parquet), or a folder that datasets saved; also at s3://, gs://, https://.",
        ),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The copy: a new folder, or one that this command began.")
    ],
    short_side: Annotated[
        int | None,
        typer.Option(
            "--short-side",
            metavar="PX",
            min=1,
            help="Shorter side of a picture at most; smaller ones stay as they are. Without it all do.",
        ),
    ] = None,
    to: Annotated[
        PackForm,
        typer.Option("--to", help="Folders of classes, or tar shards of 256 MiB as webdataset reads them."),
    ] = "folder",
    kind: Annotated[
        str, typer.Option("--source", metavar="NAME", help="What SOURCE is, where that is in doubt.")
    ] = "",
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="ROLE=NAME",
            help="Column that is image, path, label, split or id; of shards the label's key. Repeatable.",
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Copy pictures into class folders or tar shards.

    With --short-side each picture is decoded as every loader does, made smaller as for evaluation, and
    written once: JPEG and WebP as JPEG at quality 95, all others as PNG. Without it each is copied byte for
    byte. A command that was ended at any moment goes on when it is given again.

    Examples:

        mptctl pack ~/imagenet ~/imagenet-256 --short-side 256

        mptctl pack 'food101/*.parquet' ~/food101

        mptctl pack 'shards/{000..127}.tar' ~/pictures

        mptctl pack s3://bucket/train ~/train --to shards
    """
    from mptctl.cli.runners.pack import pack_and_show

    pack_and_show(source, out, kind=kind, columns=column, to=to, short_side=short_side, as_json=as_json)
