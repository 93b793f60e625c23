"""`mptctl pack`: a smaller copy of an image folder with the same ids."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.cli.messages import next_command
from mptctl.errors import Stopped, StorageError, visible

if TYPE_CHECKING:
    from mptctl.data.pack_manifest import PackReport


@prints({"--json": "mptctl.data.pack_manifest:PackReport"})
def pack(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE_DIR", help="Folder with train/ and val/ (or test/), one folder per class in each."
        ),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The copy: a new folder, or one that this command began.")
    ],
    short_side: Annotated[
        int,
        typer.Option(
            "--short-side",
            metavar="PX",
            min=1,
            help="Shorter side of a picture at most; smaller ones stay as they are.",
        ),
    ],
    as_json: opt.Json = False,
) -> None:
    """Copy an image folder, smaller, so that it loads faster.

    Each picture is decoded as every loader does, made smaller as for evaluation, and written once: JPEG and
    WebP as JPEG at quality 95, all others as PNG. A command that was ended at any moment goes on when it is
    given again.

    Examples:

        mptctl pack ~/imagenet ~/imagenet-256 --short-side 256

        mptctl pack ~/imagenet ~/imagenet-320 --short-side 320 --json
    """
    from mptctl.data.image_folder import BadPictures, parts_of
    from mptctl.data.pack import AGAIN, pack_folder
    from mptctl.data.picture_kinds import passed_over_in_classes
    from mptctl.report.media.progress_bars import progress_bars

    try:
        with progress_bars() as progress:
            report = pack_folder(source, out, short_side, progress=progress)
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
    for line in passed_over_in_classes(source.expanduser(), parts_of(source.expanduser())).lines():
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
    return [
        f"{report.pictures:,} pictures: {said}{speed}",
        f"{report.source_bytes / 1e6:,.1f} MB became {report.packed_bytes / 1e6:,.1f} MB, {100 * share:.0f} "
        f"%; shorter side at most {report.request.short_side}; {report.path}/pack.json says from what",
        next_command(["split", "imagefolder", "--data-root", report.path]),
    ]
