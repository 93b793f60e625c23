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
from mptctl.bench.kernel import KernelBench
from mptctl.bench.loader import LoaderBench
from mptctl.bench.step import StepBench
from mptctl.cli.command import HELP_FLAGS
from mptctl.data.packing.records import PackReport
from mptctl.data.split_file import SplitFile
from mptctl.data.split_summary import SplitSummary
from mptctl.evaluation.calibration.report import CalibrationReport
from mptctl.evaluation.flip_report import FlipReport, FlipReports
from mptctl.evaluation.gate.history import History
from mptctl.evaluation.labels.report import DisagreeReport, LabelledReport
from mptctl.inference.discriminability import DiscriminabilityReport
from mptctl.inference.few_shot import FewShotReport
from mptctl.machine.doctor import DoctorReport
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.run_folder import EnvironmentFile
from mptctl.models.run_list import RunList
from mptctl.recipe import Recipe, recipe_keys
from mptctl.recipe.transforms import EXAMPLE, STEPS
from mptctl.release.adjust_report import AdjustReport
from mptctl.release.export import ExportReport
from mptctl.studies.catalog import Catalog
from mptctl.studies.comparison import Choice, Comparison
from mptctl.studies.quickstart import QuickstartResult
from mptctl.studies.study_dry_run import StudyDryRun
from mptctl.studies.study_report import StudyReport
from mptctl.training.dry_run import DryRun
from mptctl.training.ensemble import EnsembleDryRun, EnsembleSummary
from mptctl.training.observer import TrainSummary
from mptctl.tune.prepare import TuneDryRun
from mptctl.tune.tune_report import TuneReport

# Models of files and of the JSON of commands, by the title of their section; those of one model share it.
OBJECTS: dict[str, type[BaseModel]] = {
    "`split.json`": SplitFile,
    "`environment.json`": EnvironmentFile,
    "`metrics.jsonl`, one line": MetricsLine,
    "`*.pt`, the part called meta": CheckpointMeta,
    "`tune/trials.json`": TuneReport,
    "`quickstart --json`": QuickstartResult,
    "`doctor --json`": DoctorReport,
    "`evaluate --json`": FlipReport,
    "`evaluate OLD NEW1 NEW2 ... --json`": FlipReports,
    "`evaluate MODEL --json`": CalibrationReport,
    "`evaluate OLD NEW --labels FILE --json`": LabelledReport,
    "`disagree --json`": DisagreeReport,
    "`history --json`": History,
    "`split --json`": SplitSummary,
    "`train-old --json`": TrainSummary,
    "`train-old --dry-run --json`": DryRun,
    "`train-ref --json`": TrainSummary,
    "`train-ref --dry-run --json`": DryRun,
    "`train-mpt --json`": TrainSummary,
    "`train-mpt --dry-run --json`": DryRun,
    "`train-baseline --json`": TrainSummary,
    "`train-baseline --dry-run --json`": DryRun,
    "`train-ensemble --json`": EnsembleSummary,
    "`train-ensemble --dry-run --json`": EnsembleDryRun,
    "`tune --json`": TuneReport,
    "`tune --dry-run --json`": TuneDryRun,
    "`adjust --json`": AdjustReport,
    "`export --json`": ExportReport,
    "`fewshot --json`": FewShotReport,
    "`fewshot --json --analysis`": DiscriminabilityReport,
    "`study --json`": StudyReport,
    "`study --dry-run --json`": StudyDryRun,
    "`compare --json`": Comparison,
    "`compare --choose --json`": Choice,
    "`runs --json`": RunList,
    "`recipes --json`": Catalog,
    "`pack --json`": PackReport,
    "`bench loader --json`": LoaderBench,
    "`bench kernel --json`": KernelBench,
    "`bench step --json`": StepBench,
}


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
        *_model_sections(),
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
                words = _type_in_words(entry.annotation)
                if key == "data.transforms":
                    words = "list of steps, below"
                default = _as_yaml(entry.default)
                yield f"| `{key}` | {_cell(words)} | `{default}` | {_cell(entry.description or '')} |"
        yield ""
        if group == "data":
            yield from _table_of_transforms()


def _table_of_transforms() -> Iterator[str]:
    """Lines of a table of the steps that ``data.transforms`` can have."""
    yield f"Steps of `data.transforms`, such as `{EXAMPLE}`:"
    yield ""
    yield "| step | effect | parameters, with defaults |"
    yield "|---|---|---|"
    for name, step in STEPS.items():
        parameters = []
        for key, field in step.model_fields.items():
            if key != "name":
                default = "" if field.is_required() else f": {_as_yaml(field.default)}"
                parameters.append(f"`{key}{default}` ({field.description})")
        yield f"| `{name}` | {_cell(_first_paragraph(step))} | {_cell('; '.join(parameters))} |"
    yield ""


def _exit_codes() -> Iterator[str]:
    """Lines of a table of exit codes, by the first sentences of the classes of errors."""
    yield "| code | when |"
    yield "|---|---|"
    yield "| 0 | done |"
    yield "| 1 | A run of a study failed; or a bug: report it with what `--debug` shows. |"
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    ours = [each for each in classes if issubclass(each, errors.MptctlError)]
    for error in sorted(ours, key=lambda error: error.exit_code):
        if error not in (errors.MptctlError, errors.Stopped):
            yield f"| {error.exit_code} | {_first_paragraph(error)} |"
    yield f"| 130, 143 | {_first_paragraph(errors.Stopped)} (Ctrl-C, SIGTERM) |"
    yield ""


def _model_sections() -> Iterator[str]:
    """Lines on every file and JSON object: a section for each, and a table for each model in it."""
    titles: dict[type[BaseModel], list[str]] = {}
    for title, model in OBJECTS.items():
        titles.setdefault(model, []).append(title)
    seen: set[type] = set()
    for model in titles:
        yield f"### {', '.join(titles[model])}"
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
    if origin is tuple and Ellipsis not in arguments:
        return f"[{', '.join(_type_in_words(a) for a in arguments)}]"
    if origin in (list, tuple):
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
