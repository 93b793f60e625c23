"""Commands made of a record, whose fields are the options, and a function, which does the work."""

from __future__ import annotations

import gc
from collections.abc import Callable
from inspect import Parameter, Signature, cleandoc, get_annotations
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from mptctl.files.request import Flag, Request


class Job:
    """A command, which typer calls. Record and function are imported when its options, or it, are needed."""

    def __init__(self, described: Callable[[], None], request: str, work: str) -> None:
        self.__name__ = described.__name__
        self.__doc__ = cleandoc(described.__doc__ or "")
        self.__annotations__: dict[str, Any] = {}
        self._request = request
        self._work = work

    @property
    def request(self) -> type[Request]:
        """The record whose fields are the options."""
        found: type[Request] = resolve_name(f"mptctl.{self._request}")
        return found

    @property
    def work(self) -> Callable[[Request], None]:
        """The function that takes the record."""
        found: Callable[[Request], None] = resolve_name(f"mptctl.cli.{self._work}")
        return found

    @property
    def __signature__(self) -> Signature:
        """The parameters that typer makes options of: a record's own fields before those of its bases."""
        context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
        request = self.request
        annotated = dict.fromkeys(name for kind in request.__mro__ for name in get_annotations(kind))
        options = [_parameter(request, name) for name in annotated if name in request.model_fields]
        return Signature([context, *options])

    def __call__(self, context: typer.Context, **values: Any) -> None:
        """Do the work with the record of what was given on the command line."""
        given = {}
        for name, value in values.items():
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                given[name] = value
        if given.get("plugins"):
            from mptctl.recipe.own import load_plugins

            load_plugins(given["plugins"])
        asked = self.request(**given)
        work = self.work  # imported only now, since a record that is refused needs none of it
        gc.enable()  # `mptctl.__main__` disables it
        work(asked)


def job(request: str, work: str) -> Callable[[Callable[[], None]], Job]:
    """Return a decorator that makes a command of a function that holds its help alone.

    Args:
        request: the record, as ``module:Record`` below `mptctl`.
        work: the function, as ``module:function`` below `mptctl.cli`.
    """
    return lambda described: Job(described, request, work)


def _parameter(request: type[Request], name: str) -> Parameter:
    """The parameter with typer's option, or argument, for a field of a record."""
    field = request.model_fields[name]
    flag: Flag = field.metadata[0]
    text = flag.text if isinstance(flag.text, str) else flag.text()
    shown: dict[str, Any] = {
        "metavar": flag.metavar,
        "help": " ".join((text or field.description or "").split()),
        "min": flag.low,
        "max": flag.high,
        "rich_help_panel": flag.panel,
    }
    default: Any = ... if field.is_required() else field.default
    if default == []:
        default = None  # an empty list is no value that help should show
    if flag.positional:
        option = typer.Argument(default, **shown)
    else:
        option = typer.Option(default, *request.flag_names(name), **shown)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=option, annotation=field.annotation)
