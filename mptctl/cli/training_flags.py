"""Flags that every verb that trains has, declared once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, get_type_hints

from mptctl.cli import options as opt

P = ParamSpec("P")


@dataclass(frozen=True)
class TrainingFlags:
    """The flags, as they were given."""

    run_root: opt.RunRoot = Path("runs")
    recipe: opt.RecipeName = None
    overrides: opt.Overrides = None
    name: opt.Name = None
    resume: opt.Resume = False
    overwrite: opt.Overwrite = False
    seed: opt.Seed = None
    device: opt.Device = None
    dry_run: opt.DryRun = False
    print_recipe: opt.PrintRecipe = False
    as_json: opt.Json = False


def training_flags(
    **otherwise: Any,
) -> Callable[[Callable[Concatenate[TrainingFlags, P], None]], Callable[..., None]]:
    """Give a verb the training flags, after its own ones; it gets them as its first argument.

    Args:
        otherwise: by the name of a flag, its declaration where this verb's differs.
    """
    hints = get_type_hints(TrainingFlags, include_extras=True) | otherwise
    shared = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(TrainingFlags)
    ]

    def decorate(verb: Callable[Concatenate[TrainingFlags, P], None]) -> Callable[..., None]:
        own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]

        @functools.wraps(verb)
        def with_flags(**given: Any) -> None:
            flags = TrainingFlags(**{field.name: given.pop(field.name) for field in fields(TrainingFlags)})
            verb(flags, **given)  # type: ignore[call-arg]  # what is left are the verb's own

        parameters = [*(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own), *shared]
        with_flags.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        return with_flags

    return decorate
