"""What the training verbs have in common: from flags to a run, and from its result to the terminal."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mptctl.cli.budget import adjusted_afterwards, warn_of_chance
from mptctl.cli.json_models import prints
from mptctl.cli.training_flags import TrainingFlags
from mptctl.names import Session

if TYPE_CHECKING:
    from mptctl.data.split import Split
    from mptctl.names import TrackerName
    from mptctl.recipe import Recipe
    from mptctl.training.dry_run import DryRun

DEFAULT_OLD, DEFAULT_REF = "old", "ref"

prints_run = prints(
    {"--json": "mptctl.training.observer:TrainSummary", "--dry-run --json": "mptctl.training.dry_run:DryRun"}
)


@dataclass(frozen=True)
class Inputs:
    """What training flags name, each read once.

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
        from mptctl.recipe import change_recipe

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
        """What a run would be, with the recipe that it is of."""
        from mptctl.recipe import DEFAULT_PRESET, not_said

        base = DEFAULT_PRESET[self.split.file.source]
        left = None if self.resumes else not_said(self.recipe_name, base)
        return plan.model_copy(update={"recipe": self.recipe_name, "not_said": left})


def read_inputs(flags: TrainingFlags, run: str | None = None, member: str = "") -> Inputs:
    """Read the split and the recipe, which is its own for a run that goes on, unless another one is named.

    Args:
        flags: as they were given.
        run: name of the run where ``--name`` gives none; None for a verb whose folder is no run.
        member: the folder in it that holds the recipe, where the run is an ensemble.

    Raises:
        UsageError: flags that contradict each other, no split, or a recipe that is not valid.
    """
    from mptctl.data.split import load_split
    from mptctl.errors import UsageError

    if flags.resume and flags.overwrite:
        raise UsageError("--resume and --overwrite: contradict each other; give one of them")
    split = load_split(flags.run_root)
    from mptctl.models.ownership import run_folder
    from mptctl.recipe import DEFAULT_PRESET, load_recipe

    overrides = flags.overrides or ()
    if flags.resume and flags.recipe is None and run is not None:
        own = run_folder(flags.run_root, run if flags.name is None else flags.name) / member / "recipe.yaml"
        if own.is_file():
            return Inputs(flags, split, load_recipe(str(own), overrides, of_run=True), str(own), resumes=True)
    base = DEFAULT_PRESET[split.file.source]
    name = flags.recipe or base
    return Inputs(flags, split, load_recipe(name, overrides, base=base), name)


def method_keys(method: str, k: float | None = None, cache_teachers: bool = False) -> dict[str, Any]:
    """Recipe keys that the verbs of an update decide; flags that were not given leave the recipe's."""
    keys: dict[str, Any] = {"method.name": method}
    if k is not None:
        keys["method.k"] = k
    if cache_teachers:
        keys["runtime.cache_teachers"] = True
    return keys


def run_training(
    inputs: Inputs,
    verb_keys: dict[str, Any],
    *,
    name: str,
    old: str | None = None,
    refs: list[str] | None = None,
    needs_old: bool = True,
    only_old_classes: bool = False,
    seed_offset: int = 0,
    then: str | None = None,
    noise_floor: str | None = None,
    log: list[TrackerName] | None = None,
) -> None:
    """Do what a training verb says.

    Args:
        inputs: what its flags name.
        verb_keys: recipe keys that the verb decides.
        name: of the run, where ``--name`` gives none.
        old, refs: teachers, as run names or paths; None where the verb has none.
        needs_old: the method uses the old model; else it only measures flips in validation, where it is there.
        only_old_classes: the model knows the old classes alone.
        seed_offset: added to the recipe's seed where no --seed was given.
        then: the verb that a person will want to type next; default: evaluate the run against the old model.
        noise_floor: another training of the old model, which a budget of flips is held against.
        log: trackers.
    """
    from mptctl.report.trackers.tracker import require_trackers

    trackers = require_trackers(log)
    flags, split = inputs.flags, inputs.split
    recipe = inputs.with_keys(verb_keys, seed_offset)
    for note in _without_effect(flags, recipe):
        typer.echo(note, err=True)
    from mptctl.models.ownership import refuse_own_inputs, run_folder

    folder = run_folder(flags.run_root, name if flags.name is None else flags.name)
    if flags.print_recipe:
        typer.echo(recipe.to_yaml(), nl=False)
        return
    from mptctl.models.run_folder import find_checkpoint, find_references
    from mptctl.names import Role
    from mptctl.training.request import RunRequest, refuse_too_short

    refuse_too_short(recipe, split, split.classes.num_old if only_old_classes else len(split.classes.names))
    if old == DEFAULT_OLD and not needs_old and not (flags.run_root / old / "best.pt").exists():
        old = None
    if inputs.resumes and (old == DEFAULT_OLD or refs == [DEFAULT_REF]):
        own = _own_teachers(folder)
        if old == DEFAULT_OLD:
            old = own.get(Role.OLD, old)
        if refs == [DEFAULT_REF]:
            refs = [path for role, path in own.items() if role != Role.OLD] or refs
    request = RunRequest(
        recipe=recipe,
        split=split,
        folder=folder,
        old=find_checkpoint(old, flags.run_root) if old is not None else None,
        refs=find_references(refs or (), flags.run_root),
        only_old_classes=only_old_classes,
        resume=flags.resume,
        overwrite=flags.overwrite,
    )
    refuse_own_inputs(folder, request.teachers)
    adjusts = adjusted_afterwards(request, noise_floor)
    # After what can be wrong so far, which is to be said at once: what trains takes seconds to import.
    if flags.dry_run:
        from mptctl.training.dry_run import dry_run

        plan = inputs.named(dry_run(request))
        typer.echo(plan.model_dump_json() if flags.as_json else "\n".join(describe(plan)))
        if not flags.as_json:
            typer.echo("nothing was written")
        return
    from mptctl.machine.facts import rank
    from mptctl.report.trackers.logged_run import observed
    from mptctl.training.train import train

    session = Session(split.run_root, recipe.runtime.device)
    if adjusts is not None and rank() == 0:
        warn_of_chance(adjusts.budget, adjusts.old, adjusts.noise_floor, session)
    result = train(request, observed(request, trackers))
    if rank() != 0:
        return
    best, named = str(result.run.best), folder.name
    if adjusts is not None:
        from mptctl.cli.adjust import adjust_and_draw

        adjusted = adjust_and_draw(adjusts, session)
        best, named = adjusted.report.best, adjusted.folder.path.name
    if flags.as_json:
        adjusted_best = None if adjusts is None else best
        typer.echo(result.summary().model_copy(update={"adjusted": adjusted_best}).model_dump_json())
        return
    words = then.split() if then else ["evaluate", old or DEFAULT_OLD, named]
    typer.echo(next_command(words, flags.run_root), err=True)
    typer.echo(best)


def _without_effect(flags: TrainingFlags, recipe: Recipe) -> list[str]:
    """What --set asks for that the method does not use; one --set for all verbs is no mistake."""
    from mptctl.methods.rows import ROWS

    method = recipe.method.name
    if ROWS[method].bias:
        return []
    keys = {each.partition("=")[0].strip() for each in flags.overrides or ()}
    without = sorted(keys & {"method.k", "method.max_nfr"})
    return [f"--set {key}: has no effect, since {method} has no k" for key in without]


def next_command(words: list[str], run_root: Path) -> str:
    """The line that says what a person will want to type next.

    Args:
        words: verb and arguments.
        run_root: named where it is not the one that is taken by default.
    """
    root = [] if run_root == Path("runs") else ["--run-root", str(run_root)]
    return f"next: {shlex.join(['mptctl', *words, *root])}"


def _own_teachers(folder: Path) -> dict[str, str]:
    """Checkpoints of the teachers of a run that goes on, by role: of those that lie beside it."""
    from mptctl.errors import CheckpointError
    from mptctl.models.run_folder import RunDir
    from mptctl.studies.run_folders import find_by_digest
    from mptctl.training.resume import newest_checkpoint

    try:
        teachers = newest_checkpoint(RunDir(folder))[0].meta.teachers
    except CheckpointError:
        return {}  # said when the run is put together
    found = {role: find_by_digest(digest, folder) for role, digest in teachers.items()}
    return {role: str(path / "best.pt") for role, path in found.items() if path is not None}


def describe(plan: DryRun) -> list[str]:
    """What a run would be, as lines of text."""
    from mptctl.report.media.numbers import duration

    held = " (holds a run: needs --resume or --overwrite)" if plan.holds_run and not plan.from_step else ""
    bias = f", k {plan.k:g}" if plan.k else ""
    if plan.max_nfr is not None:
        bias = f", k from {plan.k:g} on, moved to keep NFR within {plan.max_nfr:g} %"
    begun = f", {plan.from_step:,} of them done" if plan.from_step else ""
    named = {"recipe": plan.recipe, "not said": plan.not_said or ""}
    lines = {
        **{key: text for key, text in named.items() if text},
        "run folder": f"{plan.run}{held}",
        "method": f"{plan.method}{bias}, seed {plan.seed}",
        "model": f"{plan.arch}, {plan.weights:,} trained weights, {plan.classes} classes ({plan.old_classes} old), "
        f"pictures of {plan.image_size} x {plan.image_size}",
        "teachers": ", ".join(plan.teachers) or "none",
        "pictures": f"{plan.pictures['train']:,} for training, {plan.pictures['val']:,} for validation",
        "trained on": plan.seen_in_training,
        "judged on": plan.seen_in_evaluation,
        "steps": f"{plan.total_steps:,} ({plan.steps_per_epoch:,} an epoch){begun}, {plan.epochs:,} "
        f"{'epoch' if plan.epochs == 1 else 'epochs'}, batch size {plan.batch_size}, lr {plan.lr:g}",
        "device": plan.device,
        "loader": plan.loader,
        "takes": f"about {duration(plan.estimate.seconds)} ({1000 * plan.estimate.step_seconds:.1f} ms a step, from a "
        f"few on random tensors), {plan.estimate.memory_mb:,.0f} MB of memory without pictures, "
        f"{plan.estimate.disk_mb:,.0f} MB of disk",
    }
    return [*(f"{key:<12}{value}" for key, value in lines.items()), *plan.notes]


def resume_command() -> str:
    """The command line that was given, with ``--resume``."""
    program = Path(sys.argv[0]).name
    words = [
        *(("python", "-m", "mptctl") if program == "__main__.py" else (program,)),
        *(word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")),
    ]
    return shlex.join([*words, "--resume"])
