"""Records of flags: a command may take a dataclass, each field of which is a flag on the command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, cast, get_type_hints

import typer


def percent(
    flag: str, text: str, low: float = 0.0, high: float | None = 100.0, panel: str | None = None
) -> Any:
    """An option with a value in percent or points, from ``low`` to ``high``; ``text`` is its help."""
    return typer.Option(flag, metavar="PCT", min=low, max=high, help=text, rich_help_panel=panel)


def with_flags(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes a flag for each field of the records that ``verb`` takes.

    Args:
        verb: its parameters are flags as typer declares them, or dataclasses whose fields are flags or again
            such dataclasses.
    """
    parameters = inspect.signature(verb, eval_str=True).parameters.values()

    @functools.wraps(verb)
    def call_with_records(**given: Any) -> None:
        verb(**{each.name: _argument(each.name, each.annotation, given) for each in parameters})

    flags = [flag for parameter in parameters for flag in _flags_of(parameter)]
    call_with_records.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]  # typer reads it
    return call_with_records


def _flags_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The flags that a parameter stands for: itself, or the fields of its record."""
    kind = parameter.annotation
    if not is_dataclass(kind):
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    hints = get_type_hints(kind, include_extras=True)
    return [flag for field in fields(kind) for flag in _flags_of(_flag_of_field(field, hints[field.name]))]


def _flag_of_field(field: Field[Any], annotation: Any) -> inspect.Parameter:
    """The keyword parameter that a field of a record stands for, with the field's default."""
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _argument(name: str, kind: Any, given: dict[str, Any]) -> Any:
    """The argument of a parameter: the value of its flag, or a record of the values of its fields."""
    if not is_dataclass(kind):
        return given[name]
    hints, record = get_type_hints(kind), cast(Callable[..., Any], kind)
    return record(**{field.name: _argument(field.name, hints[field.name], given) for field in fields(kind)})
