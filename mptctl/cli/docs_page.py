"""`docs/reference.md`, made from the code: commands, flags, recipe keys, files and JSON fields."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator
from typing import Any

import typer
import typer.main
from pydantic import BaseModel
from typer.cli import get_docs_for_click
from typer.core import TyperCommand, TyperGroup

from mptctl import errors
from mptctl.cli.command import HELP_FLAGS
from mptctl.cli.jobs import Job
from mptctl.data.split_file import SplitFile
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.run_folder import EnvironmentFile
from mptctl.recipe import Recipe, recipe_keys
from mptctl.recipe.transforms import EXAMPLE, STEPS
from mptctl.tune.tune_report import TuneReport


def render_reference(app: typer.Typer) -> str:
    """The whole page as Markdown.

    Args:
        app: the command line with all its commands.
    """
    parts = [
        "# Reference",
        "",
        "Made from the code by `make docs`; a test fails when it is stale. `mptctl COMMAND --help` says the "
        "same.",
        "",
        "## Commands",
        "",
        # Of each command, the text that `typer utils docs` would write.
        *(
            get_docs_for_click(
                obj=command,
                ctx=typer.Context(command, help_option_names=HELP_FLAGS),
                indent=2,
                name=f"mptctl {name}",
            )
            for name, command in shown_commands(app)
        ),
        "## Recipe keys",
        "",
        "In a YAML file below their group, or as `--set group.key=value`. The default counts where neither "
        "recipe nor preset sets a key; `--print-recipe` prints the values of a run.",
        "",
        *_recipe_tables(),
        "## Exit codes",
        "",
        *_exit_codes(),
        "## Files and JSON",
        "",
        "A run folder holds `best.pt` (what `evaluate` takes), `last.pt` and `previous.pt` (what `--resume` "
        "takes), `recipe.yaml`, `split.json`, `metrics.jsonl`, `environment.json`, `tensorboard/`, "
        "`trackers.json` where it was logged, and `lock` while it is written.",
        "",
        *_model_sections(app),
    ]
    return "\n".join(parts).rstrip() + "\n"


def shown_commands(app: typer.Typer) -> Iterator[tuple[str, TyperCommand]]:
    """Yield the name of every command that help shows, as it is typed (``bench loader``), and the command."""
    yield from _shown_commands(typer.main.get_command(app), "")


def _shown_commands(command: object, name: str) -> Iterator[tuple[str, TyperCommand]]:
    """Yield a command with its name, or, of a group, all commands in it; hidden ones are left out."""
    if isinstance(command, TyperGroup):
        for word, inner in command.commands.items():
            yield from _shown_commands(inner, f"{name} {word}".strip())
    elif isinstance(command, TyperCommand) and not command.hidden:
        yield name, command


def _recipe_tables() -> Iterator[str]:
    """Lines of a table of keys for each group of a recipe; the steps of transforms follow the group data."""
    for group, field in Recipe.model_fields.items():
        yield f"### `{group}`"
        yield ""
        yield _first_paragraph(field.annotation)
        yield ""
        yield "| key | type | default | meaning |"
        yield "|---|---|---|---|"
        for key, entry in recipe_keys().items():
            if key.startswith(f"{group}."):
                kind = (
                    "list of steps, below" if key == "data.transforms" else _type_in_words(entry.annotation)
                )
                yield (
                    f"| `{key}` | {_cell(kind)} | `{_as_yaml(entry.default)}` "
                    f"| {_cell(entry.description or '')} |"
                )
        yield ""
        if group == "data":
            yield from _table_of_transforms()


def _table_of_transforms() -> Iterator[str]:
    """Lines of a table of the steps that ``data.transforms`` can have."""
    yield f"Steps of `data.transforms`, such as `{EXAMPLE}`:"
    yield ""
    yield "| step | effect | parameters, with defaults |"
    yield "|---|---|---|"
    for name, kind in STEPS.items():
        parameters = [
            f"`{key}{'' if field.is_required() else f': {_as_yaml(field.default)}'}` ({field.description})"
            for key, field in kind.model_fields.items()
            if key != "name"
        ]
        yield f"| `{name}` | {_cell(_first_paragraph(kind))} | {_cell('; '.join(parameters))} |"
    yield ""


def _exit_codes() -> Iterator[str]:
    """Lines of a table of exit codes, by the first sentences of the classes of errors."""
    yield "| code | when |"
    yield "|---|---|"
    yield "| 0 | done |"
    yield "| 1 | A run of a study failed; or a bug: report it with what `--debug` shows. |"
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in classes if issubclass(kind, errors.MptctlError)]
    for kind in sorted(kinds, key=lambda kind: kind.exit_code):
        if kind not in (errors.MptctlError, errors.Stopped):
            yield f"| {kind.exit_code} | {_first_paragraph(kind)} |"
    yield f"| 130, 143 | {_first_paragraph(errors.Stopped)} (Ctrl-C, SIGTERM) |"
    yield ""


def documented_models(app: typer.Typer) -> dict[type[BaseModel], list[str]]:
    """The model of every file and JSON object, with the names of the files and commands that write it."""
    written_by: dict[type[BaseModel], list[str]] = {
        SplitFile: ["`split.json`"],
        EnvironmentFile: ["`environment.json`"],
        MetricsLine: ["`metrics.jsonl`, one line"],
        CheckpointMeta: ["`*.pt`, the part called meta"],
        TuneReport: ["`tune/trials.json`"],
    }
    for name, command in shown_commands(app):
        job: Job = command.callback.__wrapped__  # type: ignore[union-attr]  # typer wraps what it calls
        for flags, model in job.json_models().items():
            written_by.setdefault(model, []).append(f"`{name} {flags}`")
    return written_by


def _model_sections(app: typer.Typer) -> Iterator[str]:
    """Lines on every file and JSON object: a section for each, and a table for each model in it."""
    seen: set[type] = set()
    for model, titles in documented_models(app).items():
        yield f"### {', '.join(titles)}"
        yield ""
        yield from _model_tables(model, seen, "")
        yield ""


def _model_tables(model: Any, seen: set[type], heading: str) -> Iterator[str]:
    """Lines of a table of a model's fields, and below it of tables of the models in its fields.

    Args:
        model: a pydantic model.
        seen: models that have a table; those that get one are added.
        heading: above the table; none where it is empty.
    """
    seen.add(model)
    if heading:
        yield f"**{heading}**"
    yield _first_paragraph(model)
    yield ""
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    inner: list[type] = []
    for name, field in model.model_fields.items():
        yield f"| `{name}` | {_cell(_type_in_words(field.annotation))} | {_cell(field.description or '')} |"
        inner += [kind for kind in _classes_in(field.annotation) if issubclass(kind, BaseModel)]
    for part in inner:
        # The keys of a recipe have tables of their own.
        if part.__name__ != "Recipe" and part not in seen:
            yield ""
            yield from _model_tables(part, seen, f"`{part.__name__}`")


def _classes_in(annotation: Any) -> Iterator[type]:
    """Yield the classes that a type annotation is made of, such as ``int`` in ``list[int] | None``."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _classes_in(argument)


def _type_in_words(annotation: Any) -> str:
    """A type annotation as the page says it, such as ``list of integer`` or ``text or null``."""
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return " or ".join(f"`{a}`" for a in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if a is type(None) else _type_in_words(a) for a in arguments)
    if origin is typing.Annotated:
        return _type_in_words(arguments[0])
    if origin is dict:
        return f"{_type_in_words(arguments[1])} by {_type_in_words(arguments[0])}"
    if origin in (list, tuple):
        if origin is tuple and Ellipsis not in arguments:
            return f"[{', '.join(_type_in_words(a) for a in arguments)}]"
        return f"list of {_type_in_words(arguments[0])}"
    names = {str: "text", int: "integer", float: "number", bool: "true or false"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _first_paragraph(thing: Any) -> str:
    """The first paragraph of a docstring on one line; empty without a docstring."""
    return inspect.cleandoc(thing.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def _as_yaml(value: Any) -> str:
    """A default as one writes it in YAML: ``null``, ``true``, ``[1, 2]``."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_as_yaml(v) for v in value) + "]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    """Text as a cell of a Markdown table: on one line, with its bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")
