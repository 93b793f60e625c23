"""`mptctl pack`: a copy of pictures of any source with the same ids, smaller or in shards."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.cli.messages import next_command
from mptctl.errors import Stopped, StorageError, visible
from mptctl.names import PackForm

if TYPE_CHECKING:
    from mptctl.data.packing.records import PackReport


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
    """Copy the pictures of any source into folders of classes or tar shards, smaller if you like.

    With --short-side each picture is decoded as every loader does, made smaller as for evaluation, and
    written once: JPEG and WebP as JPEG at quality 95, all others as PNG. Without it each is copied byte for
    byte. A command that was ended at any moment goes on when it is given again.

    Examples:

        mptctl pack ~/imagenet ~/imagenet-256 --short-side 256

        mptctl pack 'food101/*.parquet' ~/food101

        mptctl pack 'shards/{000..127}.tar' ~/pictures

        mptctl pack s3://bucket/train ~/train --to shards
    """
    from mptctl.data.listing.image_folder import BadPictures
    from mptctl.data.packing.columns import ROLES
    from mptctl.data.packing.pack import AGAIN, QUALITY, pack_pictures
    from mptctl.data.packing.records import PackRequest
    from mptctl.data.packing.remote import is_remote
    from mptctl.report.media.progress_bars import progress_bars

    request = PackRequest(
        source=source if is_remote(source) else str(Path(source).expanduser().resolve()),
        kind=kind,
        columns=opt.by_role(column, ROLES),
        to=to,
        short_side=short_side,
        quality=QUALITY,
    )
    try:
        with progress_bars() as progress:
            report = pack_pictures(request, out, progress=progress)
    except BadPictures as error:
        for problem in error.problems:
            typer.echo(visible(problem), err=True)
        raise
    except StorageError as error:
        if error.full:
            raise StorageError(f"{error}; {AGAIN}", full=True) from error
        raise
    except KeyboardInterrupt as error:
        raise Stopped(f"{out}: stopped; {AGAIN}", signal.SIGINT) from error
    for line in report.notes:
        typer.echo(visible(line), err=True)
    if as_json:
        typer.echo(report.model_dump_json())
        return
    for line in _describe(report):
        typer.echo(visible(line))


def _describe(report: PackReport) -> list[str]:
    """The content and size of the copy and the next command, for people."""
    counts = {
        "made smaller": report.resized,
        "written anew as RGB": report.rewritten,
        "copied as they are": report.copied,
    }
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    said += f"; {report.found:,} of them were there already" if report.found else ""
    share = report.packed_bytes / max(1, report.source_bytes)
    new = report.pictures - report.found
    speed = f"; {new / report.seconds:,.0f} pictures/s" if new and report.seconds else ""
    side = report.request.short_side
    return [
        f"{report.pictures:,} pictures: {said}{speed}",
        f"{report.source_bytes / 1e6:,.1f} MB became {report.packed_bytes / 1e6:,.1f} MB, {100 * share:.0f} %"
        + (f" in {report.shards:,} shards" if report.shards else "")
        + (f"; shorter side at most {side}" if side else "")
        + f"; {report.path}/pack.json says from what",
        next_command(["split", *report.next_place]),
    ]
