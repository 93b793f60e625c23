"""Records of flags: a parameter of a verb that is a record stands for the flags that are its fields."""

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
    """A flag that takes percent, or percentage points."""
    return typer.Option(flag, metavar="PCT", min=low, max=high, help=text, rich_help_panel=panel)


def with_flags(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb a flag for each field of the records that it takes; a field may be a record itself.

    Args:
        verb: its parameters are flags as typer declares them, and dataclasses of such fields.
    """
    parameters = inspect.signature(verb, eval_str=True).parameters.values()

    @functools.wraps(verb)
    def with_words(**given: Any) -> None:
        verb(**{each.name: _value(each.name, each.annotation, given) for each in parameters})

    flags = [flag for each in parameters for flag in _flags(each)]
    with_words.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]  # typer reads it
    return with_words


def _flags(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The flags that a parameter stands for: itself, or the fields of its record."""
    kind = parameter.annotation
    if not is_dataclass(kind):
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    hints = get_type_hints(kind, include_extras=True)
    return [flag for field in fields(kind) for flag in _flags(_parameter(field, hints[field.name]))]


def _parameter(field: Field[Any], annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _value(name: str, kind: Any, given: dict[str, Any]) -> Any:
    """The value of a flag, or the record that the values of its fields make."""
    if not is_dataclass(kind):
        return given[name]
    hints, record = get_type_hints(kind), cast(Callable[..., Any], kind)
    return record(**{field.name: _value(field.name, hints[field.name], given) for field in fields(kind)})
