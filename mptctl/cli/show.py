"""Print the result of a command: as one JSON object, or as a document in the terminal."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from mptctl.files import Model
    from mptctl.report.media.document import Document

Result = TypeVar("Result", bound="Model")


def show(result: Result, describe: Callable[[Result], Document | str | None], *, as_json: bool) -> None:
    """Print the result of a command; every command that has `--json` ends here.

    Args:
        result: of the command.
        describe: makes the document or the text for a person; None: it has printed the result itself.
        as_json: print the result as JSON instead.
    """
    if as_json:
        typer.echo(_json_for(sys.stdout.encoding, result.model_dump_json()))
        return
    shown = describe(result)
    if isinstance(shown, str):
        typer.echo(shown, nl=not shown.endswith("\n"))
    elif shown is not None:
        from mptctl.report.media.terminal import print_document

        print_document(shown)


def _json_for(encoding: str | None, text: str) -> str:
    """Return JSON as it can be printed. Readers expect UTF-8; another encoding gets ASCII with escapes."""
    if codecs.lookup(encoding or "utf-8").name == "utf-8":
        return text
    return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)
