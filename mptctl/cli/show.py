"""Prints the result of a command: one object of JSON, or the document in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from mptctl.files import Model

Result = TypeVar("Result", bound="Model")


def show(
    result: Result, view: str | Callable[[Result], object], *context: object, as_json: bool = False
) -> None:
    """Print a result; every command that has `--json` ends here.

    Args:
        result: what the command came to.
        view: ``module:function`` below `mptctl.report.documents` that makes a document of it, or what prints
            its lines.
        context: what else the builder of a document takes.
        as_json: print the result itself.
    """
    if as_json:
        typer.echo(result.model_dump_json())
    elif isinstance(view, str):
        show_document(result, view, *context)
    else:
        view(result)


def show_document(content: object, builder: str, *context: object) -> None:
    """Print the document of a result that is no record of JSON by itself, such as a list of them."""
    from mptctl.report.media.terminal import print_document

    print_document(resolve_name(f"mptctl.report.documents.{builder}")(content, *context))
