"""`mptctl import`: measure a model that was trained elsewhere, and write it as a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mptctl.data.split import Split, load_split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.errors import CheckpointError, UsageError, some
from mptctl.models.ownership import Existing, refuse_own_inputs, run_folder
from mptctl.models.requests import ImportRequest
from mptctl.models.run_folder import RunDir
from mptctl.names import Session
from mptctl.recipe import DEFAULT_PRESET, Recipe, load_recipe
from mptctl.report.media.progress_bars import showing_progress

if TYPE_CHECKING:
    from mptctl.models.published import HubModel


def import_model(asked: ImportRequest) -> None:
    """Write a run of a model that was trained elsewhere; print its path, notes, and its validation error.

    The run keeps a copy of the run root's split and its manifest. Without a split no error is measured.

    Raises:
        UsageError: neither a split nor --recipe says how pictures are seen, or neither settings nor the model
            say which network it is or what its classes are.
        MptctlError: weights, classes or pictures that cannot be read, or do not go together.
    """
    run_root = asked.run_root
    split = load_split(run_root) if (run_root / SPLIT_NAME).exists() else None
    if split is None and asked.recipe is None:
        raise UsageError(
            f"no {SPLIT_NAME} in {run_root}: nothing says how the model sees pictures; name a recipe with "
            "--recipe, or run mptctl split SOURCE first"
        )
    # Imported after the check, because torch takes seconds.
    from mptctl.inference.imported import validate_imported
    from mptctl.machine.facts import git_commit, versions
    from mptctl.models.checkpoint import Checkpoint, CheckpointMeta
    from mptctl.models.importing import read_foreign_model
    from mptctl.release.new_run import write_run

    run = RunDir(run_folder(run_root, asked.name))
    described = _describe(asked.weights, asked.arch, asked.class_names is not None)
    class_names = _class_names(described, asked.class_names, asked.weights)
    preset = asked.recipe or (DEFAULT_PRESET[split.file.source] if split else "")
    recipe = _recipe_of(described, preset, asked.size, asked.overrides)
    existing: Existing = "replace" if asked.overwrite else "refuse for good"
    inputs = [described.weights] if asked.class_names is None else [described.weights, asked.class_names]
    refuse_own_inputs(run.path, inputs)
    run.refuse_unusable(existing)
    if split is not None:
        _refuse_unknown_classes(class_names, split)
    model = read_foreign_model(described.weights, class_names, recipe, asked.channels)
    meta = CheckpointMeta(
        origin="imported",
        recipe=model.recipe,
        class_names=tuple(class_names),
        num_old=sum(split is None or name in split.classes.old for name in class_names),
        versions=versions(),
        git_commit=git_commit(),
    )
    checkpoint = Checkpoint(run.best, meta, model.weights, None, "")
    # Measured before anything is written, so that a model that cannot be measured leaves no run.
    with showing_progress(Session(run_root, model.recipe.runtime.device)) as session:
        notes_on_errors = validate_imported(checkpoint, asked.channels, split, session)
    left_files = write_run(run, existing, meta, model.weights, split)
    for line in [*model.notes, *left_files, *described.notes, *notes_on_errors]:
        typer.echo(f"{asked.name}: {line}", err=True)
    typer.echo(str(run.best))


def _refuse_unknown_classes(class_names: Sequence[str], split: Split) -> None:
    """Raise CheckpointError if a model's class names are not all among the split's classes."""
    known = set(split.classes.names)
    unknown = [name for name in class_names if name not in known]
    if unknown:
        raise CheckpointError(
            f"--class-names: {some(unknown)} not among the split's classes; use their names as split.json "
            "has them"
        )


def _describe(weights: Path, arch: str | None, has_class_names: bool) -> HubModel:
    """Find out the network, the classes and the preprocessing of some weights; ``arch`` is its name if given.

    A changed export is taken only if the user names its classes.

    Raises:
        UsageError: neither the weights nor ``arch`` say which network they are of.
    """
    from mptctl.models.published import find_described

    described = find_described(weights.expanduser(), arch, allow_changed=has_class_names)
    if described is None:
        raise UsageError(
            f"{weights}: nothing says which network these weights are of; name it with --arch, such as "
            "--arch resnet18"
        )
    return described


def _class_names(model: HubModel, file: Path | None, weights: Path) -> Sequence[str]:
    """Return the names in the file, if one is given, else those in the model.

    Raises:
        UsageError: no file is given, and the model has no names.
    """
    from mptctl.models.importing import read_class_names

    names = model.class_names if file is None else read_class_names(file)
    if names is None:
        raise UsageError(f"{weights}: does not name its classes; give --class-names FILE, one a line")
    return names


def _recipe_of(model: HubModel, preset: str, size: int | None, overrides: list[str]) -> Recipe:
    """Return the preset with the model's preprocessing, then the size, the overrides, and what is fixed.

    Fixed are the model's network, no pretrained weights, and the method no-treatment.
    """
    if size is not None:
        overrides = [f"data.image_size={size}", "data.eval_resize=null", *overrides]
    fixed = {"model.arch": model.arch, "model.pretrained": None, "method.name": "no-treatment"}
    return load_recipe(preset, overrides, fixed, described=model.data)
