"""The work of the training commands: build a run from flags, train it, and print its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mptctl.cli.dry_run_lines import describe_dry_run
from mptctl.cli.messages import next_command
from mptctl.cli.runners.adjust import adjust_and_draw
from mptctl.cli.runners.budget import BudgetOrK, plan_adjustment, refuse_without_budget
from mptctl.cli.show import show
from mptctl.cli.training_flags import TrainingFlags, UpdateFlags
from mptctl.data.held_split import find_split, relocate
from mptctl.data.split import Split
from mptctl.errors import CheckpointError, UsageError
from mptctl.machine.facts import rank
from mptctl.methods.rows import ROWS, distance_of, mpt_method
from mptctl.models.ownership import refuse_own_inputs, run_folder
from mptctl.models.run_folder import RunDir, find_checkpoint, find_references, refuse_missing_run
from mptctl.names import Distance, Init, MethodName, Role, Session, TrackerName
from mptctl.recipe import (
    DEFAULT_PRESET,
    Recipe,
    change_recipe,
    describe_missing_keys,
    differences,
    load_recipe,
    validate_method,
)
from mptctl.recipe.network import copy_network_keys
from mptctl.release.adjust_report import AdjustRequest
from mptctl.report.trackers.tracker import require_trackers
from mptctl.studies.run_folders import find_by_digest
from mptctl.training.request import OLD_SEED_OFFSET, REF_SEED_OFFSET, RunRequest, refuse_too_short

if TYPE_CHECKING:
    from mptctl.training.dry_run import DryRun

DEFAULT_OLD, DEFAULT_REF = "old", "ref"
PLAIN_FROM_FRESH = {"method.name": "no-treatment", "method.init": "fresh"}


@dataclass(frozen=True)
class Inputs:
    """The split and the recipe that training flags name, each read once.

    Attributes:
        flags: as they were given.
        split: of the run root.
        recipe: the preset or file with ``--set``, without the keys that the command decides.
        recipe_name: for messages.
        resumes: the recipe was read from the folder of the run, which is resumed.
    """

    flags: TrainingFlags
    split: Split
    recipe: Recipe
    recipe_name: str
    resumes: bool = False

    def with_keys(self, command_keys: dict[str, Any], seed_offset: int = 0) -> Recipe:
        """The recipe of the run, with the keys of the command, the device and the seed.

        Args:
            command_keys: recipe keys that the command decides.
            seed_offset: added to the recipe's seed without --seed; not to that of a run that is resumed.
        """
        keys = dict(command_keys)
        if self.flags.device is not None:
            keys["runtime.device"] = self.flags.device
        # The offset is added to a seed of --set too: with the same --set for all commands, the reference must
        # still begin with other weights than the update.
        is_seed_set = "runtime.seed" in _keys_set_by(self.flags)
        offset = 0 if self.resumes and not is_seed_set else seed_offset
        seed = self.recipe.runtime.seed + offset if self.flags.seed is None else self.flags.seed
        return change_recipe(self.recipe, keys | {"runtime.seed": seed}, self.recipe_name)

    def with_recipe_name(self, plan: DryRun) -> DryRun:
        """The plan of a run with the name of its recipe, and a note on keys that its file does not say."""
        base = DEFAULT_PRESET[self.split.file.source]
        missing_keys = None if self.resumes else describe_missing_keys(self.recipe_name, base)
        return plan.model_copy(update={"recipe": self.recipe_name, "not_said": missing_keys})


def read_inputs(
    flags: TrainingFlags, run: str | None = None, member: str = "", teachers: Sequence[str] = ()
) -> Inputs:
    """Read the split and the recipe that training flags name.

    The split is the run root's; without one there, the split that the run or its teachers keep. With --resume
    and without --recipe, the recipe is that of the run itself.

    Args:
        flags: as they were given.
        run: name of the run without ``--name``; None for a command whose folder is no run.
        member: of an ensemble, the subfolder whose recipe is read.
        teachers: of the run, by name or path.

    Raises:
        UsageError: flags that contradict each other, no split, or a recipe that is not valid.
        CheckpointError: there is no such run to resume.
    """
    if flags.resume and flags.overwrite:
        raise UsageError("--resume and --overwrite: contradict each other; give one of them")
    folders = [folder for name in teachers for folder in _folders_called(name, flags.run_root)]
    overrides, resumed = flags.overrides or (), None
    if flags.resume and run is not None:
        resumed = run_folder(flags.run_root, run if flags.name is None else flags.name) / member
        if not member:  # `train-ensemble --resume` also begins members that are missing
            refuse_missing_run(resumed)
        folders.insert(0, resumed)
    split = relocate(find_split(flags.run_root, folders), flags.data_root)
    if resumed is not None and flags.recipe is None:
        file = resumed / "recipe.yaml"
        if file.is_file():
            recipe = load_recipe(str(file), overrides, of_run=True)
            return Inputs(flags, split, recipe, str(file), resumes=True)
    base = DEFAULT_PRESET[split.file.source]
    name = flags.recipe or base
    return Inputs(flags, split, load_recipe(name, overrides, base=base), name)


def _folders_called(name: str, run_root: Path) -> list[Path]:
    """The run folders that a name or a path may mean, there or not: of a run, an ensemble or a checkpoint."""
    paths = [run_root / name, Path(name).expanduser()]
    return [folder for path in paths for folder in (path, path / "0", path.parent)]


def _keys_set_by(flags: TrainingFlags) -> set[str]:
    """The recipe keys that ``--set`` names."""
    return {override.partition("=")[0].strip() for override in flags.overrides or ()}


@dataclass(frozen=True)
class MptVariant:
    """The variant of margin preserving training that flags choose: distance, reference, first weights.

    Where distance or init is None, the recipe decides.
    """

    distance: Distance | None
    with_ref: bool = True
    init: Init | None = None

    def method(self, recipe: Recipe | None = None) -> MethodName:
        """The name of the method: of the given distance, else of the recipe's, else of KL divergence.

        So a recipe that `tune` wrote needs no flag.
        """
        distance = self.distance
        if distance is None and recipe is not None:
            distance = distance_of(recipe.method.name)
        return mpt_method(distance or "kl", self.with_ref)


@dataclass(frozen=True)
class Training:
    """The settings of a training that its command decides.

    Attributes:
        name: of the run, without ``--name``.
        keys: recipe keys that the command decides.
        old, refs: teachers, as run names or paths; None and empty where the command has none.
        needs_old: the method learns from the old model. Otherwise the old model is optional, and only serves
            to count flips in validation.
        only_old_classes: the model knows the old classes alone.
        seed_offset: added to the recipe's seed without --seed.
        then: the command to suggest afterwards; None: evaluate the run against the old model.
        log: trackers that the run is logged to.
    """

    name: str
    keys: dict[str, Any]
    old: str | None = None
    refs: list[str] = field(default_factory=list)
    needs_old: bool = True
    only_old_classes: bool = False
    seed_offset: int = 0
    then: str | None = None
    log: list[TrackerName] | None = None


def train_old_model(flags: TrainingFlags, log: list[TrackerName] | None) -> None:
    """Train the old model, as the run ``old``."""
    training = Training(
        "old", PLAIN_FROM_FRESH, only_old_classes=True, seed_offset=OLD_SEED_OFFSET, then="train-ref", log=log
    )
    _run_training(read_inputs(flags, training.name), training)


def train_reference(flags: TrainingFlags, log: list[TrackerName] | None) -> None:
    """Train the reference, as the run ``ref``."""
    training = Training("ref", PLAIN_FROM_FRESH, seed_offset=REF_SEED_OFFSET, then="train-mpt", log=log)
    _run_training(read_inputs(flags, training.name), training)


def train_mpt_update(flags: TrainingFlags, update: UpdateFlags, variant: MptVariant, bias: BudgetOrK) -> None:
    """Train the update with margin preserving training, and adjust it to a budget, if there is one."""
    if not variant.with_ref and (update.ref or variant.init == "ref"):
        raise UsageError("--no-ref: leaves out what --ref or --init ref names; give one of them")
    refs = (update.ref or [DEFAULT_REF]) if variant.with_ref else []
    inputs = read_inputs(flags, variant.method(), teachers=[update.old, *refs])
    if inputs.resumes and not update.ref and Role.REF not in ROWS[inputs.recipe.method.name].teachers:
        variant, refs = replace(variant, with_ref=False), []  # as the run was begun
    method = variant.method(inputs.recipe)
    if bias.max_nfr is not None and bias.k is not None:
        raise UsageError("--max-nfr and --k: the budget moves k; give one of them")
    budget = inputs.recipe.method.max_nfr if bias.max_nfr is None else bias.max_nfr
    refuse_without_budget(budget, bias.confidence)
    values: dict[str, Any] = {"method.max_nfr": bias.max_nfr, "method.confidence": bias.confidence}
    keys = {key: value for key, value in values.items() if value is not None}
    _run_training(
        inputs,
        Training(
            name=method,
            keys=method_keys(method, bias.k, update.cache_teachers, variant.init) | keys,
            old=update.old,
            refs=refs,
            log=update.log,
        ),
    )


def train_rival(
    flags: TrainingFlags, update: UpdateFlags, method: str, k: float | None, init: Init | None
) -> None:
    """Train the update with a rival method, or plainly; a k or an init of None is the recipe's."""
    inputs = read_inputs(flags, method, teachers=[update.old, *(update.ref or [])])
    row = ROWS[validate_method({"name": method}).name]
    if k is not None and not row.bias:
        raise UsageError(f"--k {k:g}: {method} has no k; leave it out, or use train-mpt or mpt-nodistill")
    begins_with_ref = (init or inputs.recipe.method.init) == "ref"
    default_refs = [DEFAULT_REF] if Role.REF in row.teachers or begins_with_ref else []
    _run_training(
        inputs,
        Training(
            name=method,
            keys=method_keys(method, k, update.cache_teachers, init),
            old=update.old,
            refs=update.ref or default_refs,
            needs_old=Role.OLD in row.teachers,
            log=update.log,
        ),
    )


def method_keys(
    method: str, k: float | None = None, cache_teachers: bool = False, init: Init | None = None
) -> dict[str, Any]:
    """The recipe keys that commands for updates set: the method, and k, cache and init if flags name them."""
    given = {"method.k": k, "method.init": init, "runtime.cache_teachers": cache_teachers or None}
    return {"method.name": method} | {key: value for key, value in given.items() if value is not None}


def _run_training(inputs: Inputs, training: Training) -> None:
    """Train, and adjust the run to a budget of flips; or only print the recipe or the plan, as flags ask."""
    trackers = require_trackers(training.log)
    recipe = inputs.with_keys(training.keys, training.seed_offset)
    if recipe.method.init == "old" and not inputs.resumes:
        recipe = _with_network_of_old(recipe, training.old or DEFAULT_OLD, inputs.flags)
    for note in _notes_on_unused_keys(inputs.flags, recipe):
        typer.echo(note, err=True)
    folder = run_folder(inputs.flags.run_root, inputs.flags.name or training.name)
    if inputs.flags.print_recipe:
        typer.echo(recipe.to_yaml(), nl=False)
        return
    split, only_old = inputs.split, training.only_old_classes
    refuse_too_short(recipe, split, split.classes.num_old if only_old else len(split.classes.names))
    training = _choose_teachers(inputs, training, folder)
    old, root = training.old, inputs.flags.run_root
    request = RunRequest(
        recipe=recipe,
        split=split,
        folder=folder,
        old=None if old is None else find_checkpoint(old, root),
        refs=find_references(training.refs, root),
        only_old_classes=only_old,
        resume=inputs.flags.resume,
        overwrite=inputs.flags.overwrite,
    )
    refuse_own_inputs(folder, request.teachers)
    adjustment = plan_adjustment(request)
    if inputs.flags.dry_run:
        _print_dry_run(inputs, request)
    else:
        _train_and_adjust(inputs, training, request, adjustment, trackers)


def _with_network_of_old(recipe: Recipe, old: str, flags: TrainingFlags) -> Recipe:
    """Return the recipe with network and pictures of the old model, whose weights the run begins with.

    Keys of --set stay, and so does the network of a recipe that is named. Prints which keys change; a missing
    old model changes nothing and is reported later.
    """
    try:
        recipe_of_old = find_checkpoint(old, flags.run_root).parent / "recipe.yaml"
    except CheckpointError:
        return recipe
    kept = _keys_set_by(flags) | (set() if flags.recipe is None else {"model"})
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
    old, refs = training.old, training.refs
    if old == DEFAULT_OLD and not training.needs_old:
        is_there = (inputs.flags.run_root / old / "best.pt").exists()
        old = old if is_there else None
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

    plan = inputs.with_recipe_name(dry_run(request))
    show(
        plan,
        lambda plan: typer.echo("\n".join([*describe_dry_run(plan), "nothing was written"])),
        as_json=inputs.flags.as_json,
    )


def _train_and_adjust(
    inputs: Inputs,
    training: Training,
    request: RunRequest,
    adjustment: AdjustRequest | None,
    trackers: list[TrackerName],
) -> None:
    """Train, adjust if an adjustment is planned, and print the checkpoint and the next command, or JSON.

    Of several processes only that of rank 0 adjusts and prints.
    """
    from mptctl.report.trackers.logged_run import logging_observer
    from mptctl.training.train import train

    session = Session(inputs.split.run_root, request.recipe.runtime.device, data_root=inputs.flags.data_root)
    result = train(request, logging_observer(request, trackers))
    if rank() != 0:
        return
    summary, best, name = result.summary(), str(result.run.best), request.folder.name
    if adjustment is not None:
        adjusted = adjust_and_draw(adjustment, session)
        best, name = adjusted.report.best, adjusted.folder.path.name
        summary = summary.model_copy(update={"adjusted": best})
    words = [training.then] if training.then else ["evaluate", training.old or DEFAULT_OLD, name]
    if not inputs.flags.as_json:
        typer.echo(next_command(words, inputs.flags.run_root), err=True)
    show(summary, lambda _: typer.echo(best), as_json=inputs.flags.as_json)


def _notes_on_unused_keys(flags: TrainingFlags, recipe: Recipe) -> list[str]:
    """Notes on --set of k for a method without k: no error, since one --set may serve several commands."""
    method = recipe.method.name
    if ROWS[method].bias:
        return []
    unused = sorted(_keys_set_by(flags) & {"method.k", "method.max_nfr"})
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
