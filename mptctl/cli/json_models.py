"""The models of what verbs print as JSON, named beside each verb and imported only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

Verb = TypeVar("Verb", bound=Callable[..., Any])


def prints(models: dict[str, str]) -> Callable[[Verb], Verb]:
    """Declare what a verb prints as JSON.

    Args:
        models: by the flags that ask for it, where its model is, as ``module:Model``.
    """

    def declare(verb: Verb) -> Verb:
        verb.__dict__["prints"] = models
        return verb

    return declare


def json_models(verb: Callable[..., Any]) -> dict[str, type[BaseModel]]:
    """The models of what a verb prints, by the flags that ask for it; empty where it prints no JSON."""
    found: dict[str, type[BaseModel]] = {}
    for flags, where in verb.__dict__.get("prints", {}).items():
        module, _, name = where.partition(":")
        found[flags] = getattr(import_module(module), name)
    return found
