"""Prints the result of a command: one object of JSON, or the document in a terminal."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from mptctl.files import Model


def show(result: Model, builder: str, *context: object, as_json: bool = False) -> None:
    """Print a result.

    Args:
        result: what the command came to.
        builder: ``module:function`` below `mptctl.report.documents` that makes a document of it.
        context: what else the builder takes.
        as_json: print the result itself.
    """
    if as_json:
        typer.echo(result.model_dump_json())
    else:
        show_document(result, builder, *context)


def show_document(content: object, builder: str, *context: object) -> None:
    """Print the document of a result that is no record of JSON by itself, such as a list of them."""
    from mptctl.report.media.terminal import print_document

    print_document(resolve_name(f"mptctl.report.documents.{builder}")(content, *context))
