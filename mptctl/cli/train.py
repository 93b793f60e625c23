"""The training commands: build a run from settings, train it, and print its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from mptctl.cli.adjust import adjust_and_warn
from mptctl.cli.budget import plan_adjustment, refuse_without_budget
from mptctl.cli.dry_run_lines import describe_dry_run
from mptctl.cli.messages import next_command
from mptctl.cli.show import show
from mptctl.data.held_split import find_split, relocate
from mptctl.data.split import Split
from mptctl.errors import CheckpointError, UsageError
from mptctl.machine.facts import rank
from mptctl.methods.rows import chosen_mpt_method, mpt_method, row_of
from mptctl.models.ownership import refuse_own_inputs, run_folder
from mptctl.models.run_folder import RunDir, find_checkpoint, find_references, refuse_missing_run
from mptctl.names import Role, Session, TrackerName
from mptctl.recipe import DEFAULT_PRESET, Recipe, change_recipe, differences, load_recipe
from mptctl.recipe.reading import copy_network_keys
from mptctl.release.requests import AdjustSettings
from mptctl.report.trackers.tracker import require_trackers
from mptctl.studies.run_folders import find_by_digest
from mptctl.training.request import OLD_SEED_OFFSET, REF_SEED_OFFSET, RunRequest
from mptctl.training.train_request import BaselineRequest, IndependentRequest, MptRequest, TrainSettings

DEFAULT_OLD, DEFAULT_REF = "old", "ref"
PLAIN_FROM_FRESH = {"method.name": "no-treatment", "method.init": "fresh"}


@dataclass(frozen=True)
class Inputs:
    """The split and the recipe that settings name, each read once.

    Attributes:
        asked: the settings.
        split: of the run root.
        recipe: the preset or file with ``--set``, without the keys that the command decides.
        recipe_name: for messages.
        resumes: the recipe was read from the folder of the run, which is resumed.
    """

    asked: TrainSettings
    split: Split
    recipe: Recipe
    recipe_name: str
    resumes: bool = False

    def with_keys(self, command_keys: dict[str, Any], seed_offset: int = 0) -> Recipe:
        """The recipe of the run, with the keys of the command, the device and the seed.

        Args:
            command_keys: recipe keys that the command decides; where the value is None, the recipe does.
            seed_offset: added to the recipe's seed without --seed; not to that of a run that is resumed.
        """
        settings = command_keys | {"runtime.device": self.asked.device, "runtime.seed": self.asked.seed}
        keys = {key: value for key, value in settings.items() if value is not None}
        # The offset is added to a seed of --set too: with the same --set for all commands, the reference must
        # still begin with other weights than the update.
        keeps_seed = self.resumes and "runtime.seed" not in self.asked.keys_set
        if self.asked.seed is None and not keeps_seed:
            keys["runtime.seed"] = self.recipe.runtime.seed + seed_offset
        return change_recipe(self.recipe, keys, self.recipe_name)


def read_inputs(
    asked: TrainSettings,
    run: str | None = None,
    member: str = "",
    teachers: Sequence[str] = (),
    method: str | None = None,
) -> Inputs:
    """Read the split and the recipe that settings name.

    The split is the run root's; without one there, the split that the run or its teachers keep. With --resume
    and without --recipe, the recipe is that of the run itself.

    Args:
        asked: the settings.
        run: name of the run without ``--name``; None for a command whose folder is no run.
        member: of an ensemble, the subfolder whose recipe is read.
        teachers: of the run, by name or path.
        method: that the command names, whose settings the recipe may hold.

    Raises:
        UsageError: settings that contradict each other, no split, or a recipe that is not valid.
        CheckpointError: there is no such run to resume.
    """
    if asked.resume and asked.overwrite:
        raise UsageError("--resume and --overwrite: contradict each other; give one of them")
    folders = [folder for name in teachers for folder in _folders_called(name, asked.run_root)]
    resumed = None
    if asked.resume and run is not None:
        resumed = run_folder(asked.run_root, run if asked.name is None else asked.name) / member
        if not member:  # `train-ensemble --resume` also begins members that are missing
            refuse_missing_run(resumed)
        folders.insert(0, resumed)
    split = relocate(find_split(asked.run_root, folders), asked.data_root)
    if resumed is not None and asked.recipe is None:
        file = resumed / "recipe.yaml"
        if file.is_file():
            recipe = load_recipe(str(file), asked.overrides, of_run=True)
            return Inputs(asked, split, recipe, str(file), resumes=True)
    base = DEFAULT_PRESET[split.file.source]
    name = asked.recipe or base
    fixed = {} if method is None else {"method.name": method}
    return Inputs(asked, split, load_recipe(name, asked.overrides, fixed, base=base), name)


def _folders_called(name: str, run_root: Path) -> list[Path]:
    """The run folders that a name or a path may mean, there or not: of a run, an ensemble or a checkpoint."""
    paths = [run_root / name, Path(name).expanduser()]
    return [folder for path in paths for folder in (path, path / "0", path.parent)]


@dataclass(frozen=True)
class Training:
    """The settings of a training that its command decides.

    Attributes:
        name: of the run, without ``--name``.
        keys: recipe keys that the command decides; where the value is None, the recipe does.
        old, refs: teachers, as run names or paths; None and empty where the command has none.
        needs_old: the method learns from the old model. Otherwise the old model is optional, and only serves
            to count flips in validation.
        only_old_classes: the model knows the old classes alone.
        seed_offset: added to the recipe's seed without --seed.
        then: the command to suggest afterwards; None: evaluate the run against the old model.
    """

    name: str
    keys: dict[str, Any]
    old: str | None = None
    refs: list[str] = field(default_factory=list)
    needs_old: bool = True
    only_old_classes: bool = False
    seed_offset: int = 0
    then: str | None = None


def train_old(asked: IndependentRequest) -> None:
    """Train the old model, as the run ``old``."""
    training = Training(
        "old", PLAIN_FROM_FRESH, only_old_classes=True, seed_offset=OLD_SEED_OFFSET, then="train-ref"
    )
    _run_training(read_inputs(asked, training.name), training, asked.log)


def train_ref(asked: IndependentRequest) -> None:
    """Train the reference, as the run ``ref``."""
    training = Training("ref", PLAIN_FROM_FRESH, seed_offset=REF_SEED_OFFSET, then="train-mpt")
    _run_training(read_inputs(asked, training.name), training, asked.log)


def train_mpt(asked: MptRequest) -> None:
    """Train the update with margin preserving training, and adjust it to a budget, if there is one."""
    with_ref = not asked.no_ref
    if asked.no_ref and (asked.refs or asked.init == "ref"):
        raise UsageError("--no-ref: leaves out what --ref or --init ref names; give one of them")
    refs = (asked.refs or [DEFAULT_REF]) if with_ref else []
    inputs = read_inputs(asked, mpt_method(asked.distance or "kl", with_ref), teachers=[asked.old, *refs])
    if inputs.resumes and not asked.refs and Role.REF not in row_of(inputs.recipe.method.name).teachers:
        # As the run was begun.
        with_ref = False
        refs = []
    method = chosen_mpt_method(inputs.recipe.method, asked.distance, with_ref)
    if asked.max_nfr is not None and asked.k is not None:
        raise UsageError("--max-nfr and --k: the budget moves k; give one of them")
    budget = inputs.recipe.method.max_nfr if asked.max_nfr is None else asked.max_nfr
    refuse_without_budget(budget, asked.confidence)
    keys = _method_keys(method, asked) | {
        "method.max_nfr": asked.max_nfr,
        "method.confidence": asked.confidence,
    }
    _run_training(inputs, Training(method, keys, asked.old, refs), asked.log)


def train_baseline(asked: BaselineRequest) -> None:
    """Train the update with a rival method, or plainly."""
    method = asked.method
    row = row_of(method)
    inputs = read_inputs(asked, method, teachers=[asked.old, *asked.refs], method=method)
    if asked.k is not None and not row.bias:
        raise UsageError(
            f"--k {asked.k:g}: {method} has no k; leave it out, or use train-mpt or mpt-nodistill"
        )
    begins_with_ref = (asked.init or inputs.recipe.method.init) == "ref"
    default_refs = [DEFAULT_REF] if Role.REF in row.teachers or begins_with_ref else []
    training = Training(
        name=method,
        keys=_method_keys(method, asked),
        old=asked.old,
        refs=asked.refs or default_refs,
        needs_old=Role.OLD in row.teachers,
    )
    _run_training(inputs, training, asked.log)


def _method_keys(method: str, asked: MptRequest | BaselineRequest) -> dict[str, Any]:
    """The recipe keys that commands for updates set; of k, init and cache None is the recipe's."""
    return {
        "method.name": method,
        "method.k": asked.k,
        "method.init": asked.init,
        "runtime.cache_teachers": asked.cache_teachers or None,
    }


def _run_training(inputs: Inputs, training: Training, log: list[TrackerName]) -> None:
    """Train, and adjust the run to a budget of flips; or only print the recipe or the plan, if asked to.

    Args:
        inputs: split, recipe and settings.
        training: what the command decides.
        log: trackers that the run is logged to.
    """
    trackers = require_trackers(log)
    recipe = inputs.with_keys(training.keys, training.seed_offset)
    if recipe.method.init == "old" and not inputs.resumes:
        recipe = _with_network_of_old(recipe, training.old or DEFAULT_OLD, inputs.asked)
    for note in _notes_on_unused_keys(inputs.asked, recipe):
        typer.echo(note, err=True)
    folder = run_folder(inputs.asked.run_root, inputs.asked.name or training.name)
    if inputs.asked.print_recipe:
        typer.echo(recipe.to_yaml(), nl=False)
        return
    training = _choose_teachers(inputs, training, folder)
    request = RunRequest(
        recipe=recipe,
        split=inputs.split,
        folder=folder,
        old=None if training.old is None else find_checkpoint(training.old, inputs.asked.run_root),
        refs=find_references(training.refs, inputs.asked.run_root),
        only_old_classes=training.only_old_classes,
        resume=inputs.asked.resume,
        overwrite=inputs.asked.overwrite,
    )
    refuse_own_inputs(folder, request.teachers)
    adjustment = plan_adjustment(request)
    if inputs.asked.dry_run:
        _print_dry_run(inputs, request)
    else:
        _train_and_adjust(inputs, training, request, adjustment, trackers)


def _with_network_of_old(recipe: Recipe, old: str, asked: TrainSettings) -> Recipe:
    """Return the recipe with network and pictures of the old model, whose weights the run begins with.

    Keys of --set stay, and so does the network of a recipe that is named. Prints which keys change; a missing
    old model changes nothing and is reported later.
    """
    try:
        recipe_of_old = find_checkpoint(old, asked.run_root).parent / "recipe.yaml"
    except CheckpointError:
        return recipe
    kept = asked.keys_set | (set() if asked.recipe is None else {"model"})
    changed = copy_network_keys(recipe, recipe_of_old, kept)
    changed_keys = [key for key, _, _ in differences(recipe, changed)]
    if changed_keys:
        typer.echo(f"as {old} has it, whose weights it begins with: {', '.join(changed_keys)}", err=True)
    return changed


def _choose_teachers(inputs: Inputs, training: Training, folder: Path) -> Training:
    """Return the training with its final teachers; those that flags name are not changed.

    A default old model that is missing is left out, if the method does not need it. A run that is resumed
    takes the teachers that the checkpoint in its folder records.
    """
    old = training.old
    refs = training.refs
    is_missing = not (inputs.asked.run_root / DEFAULT_OLD / "best.pt").exists()
    if old == DEFAULT_OLD and is_missing and not training.needs_old:
        old = None
    if inputs.resumes and (old == DEFAULT_OLD or refs == [DEFAULT_REF]):
        recorded = _recorded_teachers(folder)
        if old == DEFAULT_OLD:
            old = recorded.get(Role.OLD, old)
        if refs == [DEFAULT_REF]:
            refs = [path for role, path in recorded.items() if role != Role.OLD] or refs
    return replace(training, old=old, refs=refs)


def _print_dry_run(inputs: Inputs, request: RunRequest) -> None:
    """Print the plan of a training, as lines or JSON; nothing is written."""
    from mptctl.training.dry_run import dry_run

    plan = dry_run(request, inputs.recipe_name)
    lines = [*describe_dry_run(plan), "nothing was written"]
    show(plan, lambda _: "\n".join(lines), as_json=inputs.asked.as_json)


def _train_and_adjust(
    inputs: Inputs,
    training: Training,
    request: RunRequest,
    adjustment: AdjustSettings | None,
    trackers: list[TrackerName],
) -> None:
    """Train, adjust if an adjustment is planned, and print the checkpoint and the next command, or JSON.

    Of several processes only that of rank 0 adjusts and prints.
    """
    from mptctl.report.trackers.logged_run import logging_observer
    from mptctl.training.train import train

    session = Session(inputs.split.run_root, request.recipe.runtime.device, data_root=inputs.asked.data_root)
    result = train(request, logging_observer(request, trackers))
    if rank() != 0:
        return
    summary = result.summary()
    best = str(result.run.best)
    name = request.folder.name
    if adjustment is not None:
        adjusted = adjust_and_warn(adjustment, session)
        best = adjusted.best
        name = Path(adjusted.run).name
        summary = summary.model_copy(update={"adjusted": best})
    words = [training.then] if training.then else ["evaluate", training.old or DEFAULT_OLD, name]
    if not inputs.asked.as_json:
        typer.echo(next_command(words, inputs.asked.run_root), err=True)
    show(summary, lambda _: best, as_json=inputs.asked.as_json)


def _notes_on_unused_keys(asked: TrainSettings, recipe: Recipe) -> list[str]:
    """Notes on --set of k for a method without k: no error, since one --set may serve several commands."""
    method = recipe.method.name
    if row_of(method).bias:
        return []
    unused = sorted(asked.keys_set & {"method.k", "method.max_nfr"})
    return [f"--set {key}: has no effect, since {method} has no k" for key in unused]


def _recorded_teachers(folder: Path) -> dict[str, str]:
    """Checkpoints, by role, of the teachers that a run records, as far as they lie beside it.

    Empty where the run ended before its first checkpoint, so that it begins anew; raises CheckpointError
    where it has none to resume from for another reason.
    """
    from mptctl.training.resume import newest_checkpoint, was_never_saved

    if was_never_saved(RunDir(folder)):
        return {}
    teachers = newest_checkpoint(RunDir(folder)).meta.teachers
    folders = {role: find_by_digest(digest, folder) for role, digest in teachers.items()}
    return {role: str(path / "best.pt") for role, path in folders.items() if path is not None}
