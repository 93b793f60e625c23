"""`docs/reference.md`, made from the code: verbs, flags, recipe keys, files and JSON fields."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator
from typing import Any

import typer.main
from pydantic import BaseModel
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from mptctl import errors
from mptctl.cli.json_models import json_models
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
        app: the command line with all its verbs.
    """
    parts = [
        "# Reference",
        "",
        "Made from the code by `make docs`; a test fails when it is stale. `mptctl COMMAND --help` says the "
        "same.",
        "",
        "## Commands",
        "",
        *(line for name, command in verbs(app) for line in _verb(name, command)),
        "## Recipe keys",
        "",
        "In a YAML file below their group, or as `--set group.key=value`. Defaults are those of a recipe "
        "that says nothing; presets say more (`--print-recipe`).",
        "",
        *_recipe_keys(),
        "## Exit codes",
        "",
        *_exit_codes(),
        "## Files and JSON",
        "",
        "A run folder holds `best.pt` (what `evaluate` takes), `last.pt` and `previous.pt` (what `--resume` "
        "takes), `recipe.yaml`, `split.json`, `metrics.jsonl`, `environment.json`, `tensorboard/`, "
        "`trackers.json` where it was logged, and `lock` while it is written.",
        "",
        *_models(app),
    ]
    return "\n".join(parts).rstrip() + "\n"


def verbs(app: typer.Typer) -> Iterator[tuple[str, TyperCommand]]:
    """Every verb that help shows, as it is typed (``bench loader``), with its command."""
    yield from _verbs(typer.main.get_command(app), "")


def _verbs(command: object, name: str) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(command, TyperGroup):
        for part, inner in command.commands.items():
            yield from _verbs(inner, f"{name} {part}".strip())
    elif isinstance(command, TyperCommand) and not command.hidden:
        yield name, command


def _verb(name: str, command: TyperCommand) -> Iterator[str]:
    context = typer.Context(command)
    flags = [param for param in command.params if isinstance(param, TyperArgument | TyperOption)]
    words = [_words(flag, context) for flag in flags if isinstance(flag, TyperArgument)]
    yield f"### `{' '.join(['mptctl', name, *words])}`"
    yield ""
    yield from _prose(inspect.getdoc(command.callback) or "")
    yield "| flag | default | what it does |"
    yield "|---|---|---|"
    for flag in sorted(flags, key=lambda f: isinstance(f, TyperOption)):
        if not flag.hidden:
            shown = flag.default is not None and flag.default is not False
            default = f"`{_plain(flag.default)}`" if shown else ""
            yield f"| `{_words(flag, context)}` | {default} | {_cell(flag.help or '')} |"
    yield ""


def _words(flag: TyperArgument | TyperOption, context: typer.Context) -> str:
    """A flag as it is typed, such as ``--seed N``."""
    shown = flag.display_type(context)
    value = flag.metavar or {"<int>": "N", "<float>": "NUMBER"}.get(
        shown, shown.strip("<>").replace("|", "\\|")
    )
    if isinstance(flag, TyperArgument):
        return value
    names = "/".join([", ".join(flag.opts), *flag.secondary_opts])
    return names if flag.is_flag else f"{names} {value}"


def _prose(text: str) -> Iterator[str]:
    body, _, examples = inspect.cleandoc(text).partition("Examples:")
    yield body.strip()
    yield ""
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    if lines:
        yield from ["```sh", *lines, "```", ""]


def _recipe_keys() -> Iterator[str]:
    for group, field in Recipe.model_fields.items():
        yield f"### `{group}`"
        yield ""
        yield _first_line(field.annotation)
        yield ""
        yield "| key | type | default | what it is |"
        yield "|---|---|---|---|"
        for key, entry in recipe_keys().items():
            if key.startswith(f"{group}."):
                kind = "list of steps, below" if key == "data.transforms" else _type(entry.annotation)
                yield (
                    f"| `{key}` | {_cell(kind)} | `{_plain(entry.default)}` "
                    f"| {_cell(entry.description or '')} |"
                )
        yield ""
        if group == "data":
            yield from _steps()


def _steps() -> Iterator[str]:
    yield f"Steps of `data.transforms`, such as `{EXAMPLE}`:"
    yield ""
    yield "| step | what it does | parameters, with defaults |"
    yield "|---|---|---|"
    for name, kind in STEPS.items():
        said = [
            f"`{key}{'' if field.is_required() else f': {_plain(field.default)}'}` ({field.description})"
            for key, field in kind.model_fields.items()
            if key != "name"
        ]
        yield f"| `{name}` | {_cell(_first_line(kind))} | {_cell('; '.join(said))} |"
    yield ""


def _exit_codes() -> Iterator[str]:
    yield "| code | when |"
    yield "|---|---|"
    yield "| 0 | done |"
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and kind is not errors.MptctlError
    ]
    for kind in sorted((k for k in kinds if issubclass(k, errors.MptctlError)), key=lambda k: k.exit_code):
        if kind is not errors.Stopped:
            yield f"| {kind.exit_code} | {_first_line(kind)} |"
    yield f"| 130, 143 | {_first_line(errors.Stopped)} (Ctrl-C, SIGTERM) |"
    yield ""


def documented(app: typer.Typer) -> dict[type[BaseModel], list[str]]:
    """The model of every file and JSON object, with what is written in its form."""
    found: dict[type[BaseModel], list[str]] = {
        SplitFile: ["`split.json`"],
        EnvironmentFile: ["`environment.json`"],
        MetricsLine: ["`metrics.jsonl`, one line"],
        CheckpointMeta: ["`*.pt`, the part called meta"],
        TuneReport: ["`tune/trials.json`"],
    }
    for name, command in verbs(app):
        for flags, model in json_models(command.callback).items() if command.callback else ():
            found.setdefault(model, []).append(f"`{name} {flags}`")
    return found


def _models(app: typer.Typer) -> Iterator[str]:
    seen: set[type] = set()
    for model, titles in documented(app).items():
        yield f"### {', '.join(titles)}"
        yield ""
        yield from _fields(model, seen, "")
        yield ""


def _fields(model: Any, seen: set[type], heading: str) -> Iterator[str]:
    seen.add(model)
    if heading:
        yield f"**{heading}**"
    yield _first_line(model)
    yield ""
    yield "| field | type | what it is |"
    yield "|---|---|---|"
    inner: list[type] = []
    for name, field in model.model_fields.items():
        yield f"| `{name}` | {_cell(_type(field.annotation))} | {_cell(field.description or '')} |"
        inner += [
            t
            for t in _classes(field.annotation)
            if issubclass(t, BaseModel) and t not in seen and t not in inner
        ]
    for part in inner:
        if part.__name__ != "Recipe" and part not in seen:
            yield ""
            yield from _fields(part, seen, f"`{part.__name__}`")


def _classes(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _classes(argument)


def _type(annotation: Any) -> str:
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return " or ".join(f"`{a}`" for a in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if a is type(None) else _type(a) for a in arguments)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin is dict:
        return f"{_type(arguments[1])} by {_type(arguments[0])}"
    if origin in (list, tuple):
        if origin is tuple and Ellipsis not in arguments:
            return f"[{', '.join(_type(a) for a in arguments)}]"
        return f"list of {_type(arguments[0])}"
    names = {str: "text", int: "integer", float: "number", bool: "true or false"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _first_line(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_plain(v) for v in value) + "]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
