"""The models of the JSON that commands print, named beside each command and imported only when needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

Verb = TypeVar("Verb", bound=Callable[..., Any])


def prints(models: dict[str, str]) -> Callable[[Verb], Verb]:
    """Return a decorator that notes on a command, in ``prints``, the models of the JSON that it prints.

    Args:
        models: for each set of flags that prints JSON, such as ``--dry-run --json``, the model as
            ``module:Model``.
    """

    def declare(verb: Verb) -> Verb:
        verb.__dict__["prints"] = models
        return verb

    return declare


def json_models(verb: Callable[..., Any]) -> dict[str, type[BaseModel]]:
    """Import the models of the JSON that a command prints, by its flags; empty where it prints no JSON."""
    models: dict[str, type[BaseModel]] = {}
    for flags, where in verb.__dict__.get("prints", {}).items():
        module, _, name = where.partition(":")
        models[flags] = getattr(import_module(module), name)
    return models
