"""`mptctl pack`: copy the pictures, and print the content and size of the copy."""

from __future__ import annotations

import signal
from pathlib import Path

import typer

from mptctl.cli.messages import next_command
from mptctl.cli.options import columns_by_role
from mptctl.cli.show import show
from mptctl.data.listing.listing import BadPictures
from mptctl.data.listing.requests import PackSettings
from mptctl.data.packing.columns import ROLES
from mptctl.data.packing.pack import AGAIN, pack_pictures
from mptctl.data.packing.records import PackReport, PackRequest
from mptctl.data.packing.remote import is_remote
from mptctl.errors import Stopped, StorageError, visible
from mptctl.report.media.progress_bars import progress_bars


def pack_and_show(asked: PackSettings) -> None:
    """Copy the pictures of a source, and print the content and size of the copy and the next command.

    Raises:
        BadPictures: some pictures cannot be used; each is printed on standard error first.
        StorageError: the copy cannot be written.
        Stopped: Ctrl-C; where this or a full disk ended it, the message says that the same command goes on.
    """
    source, out = asked.source, asked.out
    request = PackRequest(
        source=source if is_remote(source) else str(Path(source).expanduser().resolve()),
        kind=asked.kind,
        columns=columns_by_role(asked.column, ROLES),
        to=asked.to,
        short_side=asked.short_side,
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
    show(report, lambda report: "\n".join(map(visible, _describe(report))), as_json=asked.as_json)


def _describe(report: PackReport) -> list[str]:
    """Lines for a person: the content, speed and size of the copy, and the next command."""
    counts = {
        "made smaller": report.resized,
        "written anew as RGB": report.rewritten,
        "copied as they are": report.copied,
    }
    content = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    content += f"; {report.found:,} of them were there already" if report.found else ""
    share = report.packed_bytes / max(1, report.source_bytes)
    new = report.pictures - report.found
    speed = f"; {new / report.seconds:,.0f} pictures/s" if new and report.seconds else ""
    side = report.request.short_side
    shards = f" in {report.shards:,} shards" if report.shards else ""
    largest = f"; shorter side at most {side}" if side else ""
    return [
        f"{report.pictures:,} pictures: {content}{speed}",
        f"{report.source_bytes / 1e6:,.1f} MB became {report.packed_bytes / 1e6:,.1f} MB, {100 * share:.0f} %"
        f"{shards}{largest}; {report.path}/pack.json says from what",
        next_command(["split", *report.next_place]),
    ]
