"""`docs/reference.md`, made from the code: verbs, flags, recipe keys, files and JSON fields."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import typer


def render_reference(app: typer.Typer) -> str:
    """The whole page as Markdown.

    Args:
        app: the command line with all its verbs.
    """
    parts = [
        "# Reference",
        "",
        "Made from the code by `make docs`; a test fails when it is stale. `mptctl VERB --help` says the same.",
        "",
        "## Verbs",
        "",
        *_commands(app, "mptctl"),
        "## Recipe keys",
        "",
        "In a YAML file below their group, or as `--set group.key=value`. Defaults are those of a recipe that says "
        "nothing; presets say more (`--print-recipe`).",
        "",
        *_recipe_keys(),
        "## Exit codes",
        "",
        *_exit_codes(),
        "## Files and JSON",
        "",
        "A run folder holds `best.pt` (what `evaluate` takes), `last.pt` and `previous.pt` (what `--resume` takes), "
        "`recipe.yaml`, `split.json`, `metrics.jsonl`, `environment.json`, `tensorboard/`, and `lock` while it is "
        "written.",
        "",
        *_models(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _commands(app: typer.Typer, prefix: str) -> Iterator[str]:
    for command in app.registered_commands:
        if command.callback is not None and not command.hidden:
            name = command.name or command.callback.__name__.replace("_", "-")
            yield from _verb(f"{prefix} {name}", command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from _commands(group.typer_instance, f"{prefix} {group.name}")


def _verb(name: str, callback: Callable[..., Any]) -> Iterator[str]:
    hints = typing.get_type_hints(callback, include_extras=True)
    flags = [
        _Flag(key, hints[key], parameter.default)
        for key, parameter in inspect.signature(callback).parameters.items()
    ]
    words = [flag.metavar for flag in flags if flag.is_argument]
    yield f"### `{' '.join([name, *words])}`"
    yield ""
    yield from _prose(callback.__doc__ or "")
    yield "| flag | default | what it does |"
    yield "|---|---|---|"
    for flag in sorted(flags, key=lambda f: not f.is_argument):
        if not flag.hidden:
            yield f"| {flag.title} | {flag.default} | {_cell(flag.help)} |"
    yield ""


class _Flag:
    """What a verb's signature says of one flag or argument."""

    def __init__(self, key: str, hint: Any, default: Any) -> None:
        annotation, info = typing.get_args(hint)[:2]
        kinds = [t for t in _classes(annotation) if t is not type(None)] or [annotation]
        self.is_argument = isinstance(info, typer.models.ArgumentInfo)
        self.help = info.help or ""
        self.hidden = info.hidden
        self.metavar = info.metavar or _metavar(key if self.is_argument else "", kinds[0])
        if self.is_argument:
            self.title = f"`{self.metavar}`"
        else:
            # Inside Annotated, typer keeps the first declared name where a default would stand.
            declared = [d for d in (info.default, *(info.param_decls or ())) if isinstance(d, str)]
            names = [d for d in declared if d.startswith("-")] or [f"--{key.replace('_', '-')}"]
            value = "" if kinds[0] is bool else f" {self.metavar}"
            self.title = f"`{', '.join(names)}{value}`"
        shown = default is not None and default is not False and default is not inspect.Parameter.empty
        self.default = f"`{_plain(getattr(default, 'value', default))}`" if shown else ""


def _metavar(argument: str, kind: type) -> str:
    if argument:
        return argument.upper()
    if issubclass(kind, enum.Enum):
        return "\\|".join(str(choice.value) for choice in kind)
    return {int: "N", float: "NUMBER"}.get(kind, "TEXT")


def _prose(text: str) -> Iterator[str]:
    body, _, examples = inspect.cleandoc(text).partition("Examples:")
    yield body.strip()
    yield ""
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    if lines:
        yield from ["```sh", *lines, "```", ""]


def _recipe_keys() -> Iterator[str]:
    from mptctl.recipe import Recipe, recipe_keys

    for group, field in Recipe.model_fields.items():
        yield f"### `{group}`"
        yield ""
        yield _first_line(field.annotation)
        yield ""
        yield "| key | type | default | what it is |"
        yield "|---|---|---|---|"
        for key, entry in recipe_keys().items():
            if key.startswith(f"{group}."):
                yield (
                    f"| `{key}` | {_cell(_type(entry.annotation))} | `{_plain(entry.default)}` "
                    f"| {_cell(entry.description or '')} |"
                )
        yield ""


def _exit_codes() -> Iterator[str]:
    from mptctl import errors

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


def _documented() -> list[tuple[str, Any]]:
    """Every file and JSON object with the model that it follows."""
    from mptctl.bench.kernel import KernelBench
    from mptctl.bench.loader import LoaderBench
    from mptctl.bench.step import StepBench
    from mptctl.data.split import SplitFile
    from mptctl.data.split_summary import SplitSummary
    from mptctl.evaluation.flip_report import FlipReport
    from mptctl.machine.doctor import Check
    from mptctl.models.checkpoint import CheckpointMeta
    from mptctl.models.metrics_log import MetricsLine
    from mptctl.models.run_folder import EnvironmentFile
    from mptctl.studies.quickstart import QuickstartResult
    from mptctl.training.dry_run import DryRun
    from mptctl.training.result import TrainSummary
    from mptctl.tune.dry_run import TuneDryRun
    from mptctl.tune.tune_report import TuneReport

    return [
        ("`split.json`", SplitFile),
        ("`environment.json`", EnvironmentFile),
        ("`metrics.jsonl`, one line", MetricsLine),
        ("`*.pt`, the part called meta", CheckpointMeta),
        ("`split --json`", SplitSummary),
        ("`train-* --json`", TrainSummary),
        ("`train-* --dry-run --json`", DryRun),
        ("`evaluate --json`", FlipReport),
        ("`tune/trials.json`, `tune --json`", TuneReport),
        ("`tune --dry-run --json`", TuneDryRun),
        ("`quickstart --json`", QuickstartResult),
        ("`bench loader --json`", LoaderBench),
        ("`bench kernel --json`", KernelBench),
        ("`bench step --json`", StepBench),
        ("`doctor --json`, one of `checks`", Check),
    ]


def _models() -> Iterator[str]:
    seen: set[type] = set()
    for title, model in _documented():
        yield f"### {title}"
        yield ""
        yield from _fields(model, seen, "")
        yield ""


def _fields(model: Any, seen: set[type], heading: str) -> Iterator[str]:
    from pydantic import BaseModel

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
