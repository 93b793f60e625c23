"""The work of the training verbs: from flags to a run, and from its result to the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mptctl.cli.dry_run_lines import describe_dry_run
from mptctl.cli.messages import next_command
from mptctl.cli.runners.adjust import adjust_and_draw
from mptctl.cli.runners.budget import adjusted_afterwards, refuse_without_budget, warn_of_chance
from mptctl.cli.show import show
from mptctl.cli.training_flags import TrainingFlags, UpdateFlags
from mptctl.data.held_split import find_split, relocate
from mptctl.data.split import Split
from mptctl.errors import CheckpointError, UsageError
from mptctl.machine.facts import rank
from mptctl.methods.rows import ROWS, distance_of, mpt_method
from mptctl.models.ownership import refuse_own_inputs, run_folder
from mptctl.models.run_folder import RunDir, find_checkpoint, find_references
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
from mptctl.recipe.network import with_network_of
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
        recipe: the preset or file with ``--set``, before the verb's own keys.
        recipe_name: for messages.
        resumes: the recipe is that of the run itself, which goes on.
    """

    flags: TrainingFlags
    split: Split
    recipe: Recipe
    recipe_name: str
    resumes: bool = False

    def with_keys(self, verb_keys: dict[str, Any], seed_offset: int = 0) -> Recipe:
        """The recipe of the run.

        Args:
            verb_keys: recipe keys that the verb decides.
            seed_offset: added to the recipe's seed where no --seed was given.
        """
        keys = dict(verb_keys)
        if self.flags.device is not None:
            keys["runtime.device"] = self.flags.device
        # Also where --set names the seed: the same --set for all verbs must not make the reference a twin.
        set_anew = any(
            each.partition("=")[0].strip() == "runtime.seed" for each in self.flags.overrides or ()
        )
        offset = 0 if self.resumes and not set_anew else seed_offset
        seed = self.recipe.runtime.seed + offset if self.flags.seed is None else self.flags.seed
        return change_recipe(self.recipe, keys | {"runtime.seed": seed}, self.recipe_name)

    def named(self, plan: DryRun) -> DryRun:
        """The plan of a run with the name of its recipe."""
        base = DEFAULT_PRESET[self.split.file.source]
        left = None if self.resumes else describe_missing_keys(self.recipe_name, base)
        return plan.model_copy(update={"recipe": self.recipe_name, "not_said": left})


def read_inputs(
    flags: TrainingFlags, run: str | None = None, member: str = "", teachers: Sequence[str] = ()
) -> Inputs:
    """Read the split and the recipe, which is its own for a run that goes on, unless another one is named.

    The split is the run root's; where that has none, the one that the run or its teachers hold.

    Args:
        flags: as they were given.
        run: name of the run where ``--name`` gives none; None for a verb whose folder is no run.
        member: the folder in it that holds the recipe, where the run is an ensemble.
        teachers: of the run, by name or path.

    Raises:
        UsageError: flags that contradict each other, no split, or a recipe that is not valid.
    """
    if flags.resume and flags.overwrite:
        raise UsageError("--resume and --overwrite: contradict each other; give one of them")
    folders = [folder for name in teachers for folder in _folders_of(name, flags.run_root)]
    overrides, own = flags.overrides or (), None
    if flags.resume and run is not None:
        own = run_folder(flags.run_root, run if flags.name is None else flags.name) / member
        folders.insert(0, own)
    split = relocate(find_split(flags.run_root, folders), flags.data_root)
    if own is not None and flags.recipe is None:
        own /= "recipe.yaml"
        if own.is_file():
            return Inputs(flags, split, load_recipe(str(own), overrides, of_run=True), str(own), resumes=True)
    base = DEFAULT_PRESET[split.file.source]
    name = flags.recipe or base
    return Inputs(flags, split, load_recipe(name, overrides, base=base), name)


def _folders_of(name: str, run_root: Path) -> list[Path]:
    """Run folders that may be meant by the name of a run or an ensemble, or by a path."""
    paths = [run_root / name, Path(name).expanduser()]
    return [folder for path in paths for folder in (path, path / "0", path.parent)]


@dataclass(frozen=True)
class BudgetOrK:
    """The flags by which an MPT update gets its bias: k itself, or a budget that moves k."""

    k: float | None
    max_nfr: float | None
    confidence: float | None
    noise_floor: str | None


@dataclass(frozen=True)
class MptVariant:
    """The flags by which an MPT update differs from the paper's: distance, teachers, first weights.

    A distance or an init of None is the recipe's.
    """

    distance: Distance | None
    with_ref: bool = True
    init: Init | None = None

    def method(self, recipe: Recipe | None = None) -> MethodName:
        """The method of that distance, or of the recipe's own, so that `tune`'s needs no flag; or kl."""
        return mpt_method(
            self.distance or (recipe and distance_of(recipe.method.name)) or "kl", self.with_ref
        )


@dataclass(frozen=True)
class Training:
    """A training as its verb asks for it.

    Attributes:
        name: of the run, where ``--name`` gives none.
        keys: recipe keys that the verb decides.
        old, refs: teachers, as run names or paths; None and empty where the verb has none.
        needs_old: the method uses the old model; else it only measures flips in validation, where it is
            there.
        only_old_classes: the model knows the old classes alone.
        seed_offset: added to the recipe's seed where no --seed was given.
        then: the verb that a person will want to type next; None: evaluate the run against the old model.
        noise_floor: another training of the old model, which a budget of flips is held against.
        log: trackers.
    """

    name: str
    keys: dict[str, Any]
    old: str | None = None
    refs: list[str] = field(default_factory=list)
    needs_old: bool = True
    only_old_classes: bool = False
    seed_offset: int = 0
    then: str | None = None
    noise_floor: str | None = None
    log: list[TrackerName] | None = None


def train_old_model(flags: TrainingFlags, log: list[TrackerName] | None) -> None:
    """Train the old model; errors of this and of the next three are those of `read_inputs` and of a run."""
    training = Training(
        "old", PLAIN_FROM_FRESH, only_old_classes=True, seed_offset=OLD_SEED_OFFSET, then="train-ref", log=log
    )
    _run(read_inputs(flags, training.name), training)


def train_reference(flags: TrainingFlags, log: list[TrackerName] | None) -> None:
    """Train the reference."""
    training = Training("ref", PLAIN_FROM_FRESH, seed_offset=REF_SEED_OFFSET, then="train-mpt", log=log)
    _run(read_inputs(flags, training.name), training)


def train_mpt_update(flags: TrainingFlags, update: UpdateFlags, variant: MptVariant, bias: BudgetOrK) -> None:
    """Train the update with margin preserving training."""
    if not variant.with_ref and (update.ref or variant.init == "ref"):
        raise UsageError("--no-ref: leaves out what --ref or --init ref names; give one of them")
    refs = (update.ref or [DEFAULT_REF]) if variant.with_ref else []
    inputs = read_inputs(flags, variant.method(), teachers=[update.old, *refs])
    method = variant.method(inputs.recipe)
    if bias.max_nfr is not None and bias.k is not None:
        raise UsageError("--max-nfr and --k: the budget moves k; give one of them")
    budget = inputs.recipe.method.max_nfr if bias.max_nfr is None else bias.max_nfr
    refuse_without_budget(budget, bias.confidence)
    given: dict[str, Any] = {"method.max_nfr": bias.max_nfr, "method.confidence": bias.confidence}
    given["method.init"] = variant.init
    keys = {key: value for key, value in given.items() if value is not None}
    _run(
        inputs,
        Training(
            name=method,
            keys=method_keys(method, bias.k, update.cache_teachers) | keys,
            old=update.old,
            refs=refs,
            noise_floor=bias.noise_floor,
            log=update.log,
        ),
    )


def train_rival(flags: TrainingFlags, update: UpdateFlags, method: str, k: float | None) -> None:
    """Train the update with a rival method, or plainly."""
    inputs = read_inputs(flags, method, teachers=[update.old, *(update.ref or [])])
    row = ROWS[validate_method({"name": method}).name]
    if k is not None and not row.bias:
        raise UsageError(f"--k {k:g}: {method} has no k; leave it out, or use train-mpt or mpt-nodistill")
    default_refs = [DEFAULT_REF] if Role.REF in row.teachers else []
    _run(
        inputs,
        Training(
            name=method,
            keys=method_keys(method, k, update.cache_teachers),
            old=update.old,
            refs=update.ref or default_refs,
            needs_old=Role.OLD in row.teachers,
            log=update.log,
        ),
    )


def method_keys(method: str, k: float | None = None, cache_teachers: bool = False) -> dict[str, Any]:
    """Recipe keys that the verbs of an update decide; flags that were not given leave the recipe's."""
    keys: dict[str, Any] = {"method.name": method}
    if k is not None:
        keys["method.k"] = k
    if cache_teachers:
        keys["runtime.cache_teachers"] = True
    return keys


def _run(inputs: Inputs, training: Training) -> None:
    """Print the recipe, say what would be done, or train, and adjust to a budget of flips."""
    trackers = require_trackers(training.log)
    recipe = inputs.with_keys(training.keys, training.seed_offset)
    if recipe.method.init == "old" and inputs.flags.recipe is None and not inputs.resumes:
        recipe = _with_network_of_old(recipe, training.old or DEFAULT_OLD, inputs.flags)
    for note in _without_effect(inputs.flags, recipe):
        typer.echo(note, err=True)
    folder = run_folder(inputs.flags.run_root, inputs.flags.name or training.name)
    if inputs.flags.print_recipe:
        typer.echo(recipe.to_yaml(), nl=False)
        return
    split, only_old = inputs.split, training.only_old_classes
    refuse_too_short(recipe, split, split.classes.num_old if only_old else len(split.classes.names))
    training = _with_teachers(inputs, training, folder)
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
    adjusts = adjusted_afterwards(request, training.noise_floor)
    # After what can be wrong so far, which is to be said at once: what trains takes seconds to import.
    if inputs.flags.dry_run:
        _say_what_would_be_done(inputs, request)
    else:
        _train(inputs, training, request, adjusts, trackers)


def _with_network_of_old(recipe: Recipe, old: str, flags: TrainingFlags) -> Recipe:
    """The recipe with the network whose weights it begins with; says which keys that changes."""
    try:
        of_old = find_checkpoint(old, flags.run_root).parent / "recipe.yaml"
    except CheckpointError:
        return recipe  # said when the run is put together
    said = {each.partition("=")[0].strip() for each in flags.overrides or ()}
    changed = with_network_of(recipe, of_old, said)
    if taken := [key for key, _, _ in differences(recipe, changed)]:
        typer.echo(f"as {old} has it, whose weights it begins with: {', '.join(taken)}", err=True)
    return changed


def _with_teachers(inputs: Inputs, training: Training, folder: Path) -> Training:
    """The training without an old model that it can do without; one that goes on keeps its own teachers."""
    old, refs = training.old, training.refs
    if (
        old == DEFAULT_OLD
        and not training.needs_old
        and not (inputs.flags.run_root / old / "best.pt").exists()
    ):
        old = None
    if inputs.resumes and (old == DEFAULT_OLD or refs == [DEFAULT_REF]):
        own = _own_teachers(folder)
        if old == DEFAULT_OLD:
            old = own.get(Role.OLD, old)
        if refs == [DEFAULT_REF]:
            refs = [path for role, path in own.items() if role != Role.OLD] or refs
    return replace(training, old=old, refs=refs)


def _say_what_would_be_done(inputs: Inputs, request: RunRequest) -> None:
    from mptctl.training.dry_run import dry_run

    plan = inputs.named(dry_run(request))
    show(
        plan,
        lambda plan: typer.echo("\n".join([*describe_dry_run(plan), "nothing was written"])),
        as_json=inputs.flags.as_json,
    )


def _train(
    inputs: Inputs,
    training: Training,
    request: RunRequest,
    adjusts: AdjustRequest | None,
    trackers: list[TrackerName],
) -> None:
    """Train, adjust, and print the checkpoint and the command that comes next, or what `--json` asks for."""
    from mptctl.report.trackers.logged_run import observed
    from mptctl.training.train import train

    session = Session(inputs.split.run_root, request.recipe.runtime.device, data_root=inputs.flags.data_root)
    if adjusts is not None and rank() == 0:
        warn_of_chance(adjusts.budget, adjusts.old, adjusts.noise_floor, session)
    result = train(request, observed(request, trackers))
    if rank() != 0:
        return
    summary, best, name = result.summary(), str(result.run.best), request.folder.name
    if adjusts is not None:
        adjusted = adjust_and_draw(adjusts, session)
        best, name = adjusted.report.best, adjusted.folder.path.name
        summary = summary.model_copy(update={"adjusted": best})
    words = [training.then] if training.then else ["evaluate", training.old or DEFAULT_OLD, name]
    if not inputs.flags.as_json:
        typer.echo(next_command(words, inputs.flags.run_root), err=True)
    show(summary, lambda _: typer.echo(best), as_json=inputs.flags.as_json)


def _without_effect(flags: TrainingFlags, recipe: Recipe) -> list[str]:
    """Notes on keys of --set that the method does not use; one --set for all verbs is no mistake."""
    method = recipe.method.name
    if ROWS[method].bias:
        return []
    keys = {each.partition("=")[0].strip() for each in flags.overrides or ()}
    without = sorted(keys & {"method.k", "method.max_nfr"})
    return [f"--set {key}: has no effect, since {method} has no k" for key in without]


def _own_teachers(folder: Path) -> dict[str, str]:
    """Checkpoints of the teachers of a run that goes on, by role: of those that lie beside it."""
    from mptctl.training.resume import newest_checkpoint

    try:
        teachers = newest_checkpoint(RunDir(folder))[0].meta.teachers
    except CheckpointError:
        return {}  # said when the run is put together
    found = {role: find_by_digest(digest, folder) for role, digest in teachers.items()}
    return {role: str(path / "best.pt") for role, path in found.items() if path is not None}
