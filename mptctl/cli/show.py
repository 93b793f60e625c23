"""Print the result of a command: as one JSON object, or as a document in the terminal."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from mptctl.files import Model

Result = TypeVar("Result", bound="Model")


def show(
    result: Result, printer: str | Callable[[Result], object], *context: object, as_json: bool = False
) -> None:
    """Print the result of a command; every command that has `--json` ends here.

    Args:
        result: of the command.
        printer: name of the function that builds the document, as for `show_document`; or a function that
            prints the result itself.
        context: further arguments of the function that builds the document.
        as_json: print the result as JSON instead.
    """
    if as_json:
        typer.echo(_json_for(sys.stdout.encoding, result.model_dump_json()))
    elif isinstance(printer, str):
        show_document(result, printer, *context)
    else:
        printer(result)


def _json_for(encoding: str | None, text: str) -> str:
    """Return JSON as it can be printed. Readers expect UTF-8; another encoding gets ASCII with escapes."""
    if codecs.lookup(encoding or "utf-8").name == "utf-8":
        return text
    return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)


def show_document(content: object, builder: str, *context: object) -> None:
    """Build a document and print it in the terminal.

    Args:
        content: of the document.
        builder: the function that builds it, as ``module:function`` below `mptctl.report.documents`.
        context: further arguments of that function.
    """
    from mptctl.report.media.terminal import print_document

    print_document(resolve_name(f"mptctl.report.documents.{builder}")(content, *context))
