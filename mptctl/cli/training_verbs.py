"""What the training verbs have in common: from flags to a job, and from its result to the terminal."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from mptctl.training.dry_run import DryRun


DEFAULT_OLD = "old"


@dataclass(frozen=True)
class TrainingFlags:
    """Flags of a training verb, as they were given."""

    run_root: Path
    recipe: str | None = None
    overrides: list[str] = field(default_factory=list)
    name: str | None = None
    resume: bool = False
    overwrite: bool = False
    seed: int | None = None
    device: str | None = None
    dry_run: bool = False
    print_recipe: bool = False
    as_json: bool = False


def start(
    flags: TrainingFlags,
    *,
    name: str,
    fixed: dict[str, Any],
    old: str | None = None,
    refs: list[str] | None = None,
    needs_old: bool = True,
    only_old_classes: bool = False,
    seed_offset: int = 0,
) -> None:
    """Do what a training verb says.

    Args:
        flags: as they were given.
        name: of the run, where ``--name`` gives none.
        fixed: recipe keys that the verb decides.
        old, refs: teachers, as run names or paths; None where the verb has none.
        needs_old: the method uses the old model; else it only measures flips in validation, where it is there.
        only_old_classes: the model knows the old classes alone.
        seed_offset: added to the recipe's seed where no --seed was given.
    """
    from mptctl.data.split import load_split
    from mptctl.errors import UsageError

    if flags.resume and flags.overwrite:
        raise UsageError("--resume and --overwrite: contradict each other; give one of them")
    split = load_split(flags.run_root)
    # After the split, whose absence is to be said at once: what trains takes seconds to import.
    from mptctl.models.ownership import refuse_own_inputs, run_folder
    from mptctl.models.run_folder import find_checkpoint
    from mptctl.recipe import DEFAULT_PRESET, load_recipe
    from mptctl.report.training_progress import observer
    from mptctl.training.plan import settled_method
    from mptctl.training.request import RunRequest
    from mptctl.training.train import train

    folder = run_folder(flags.run_root, name if flags.name is None else flags.name)
    preset = flags.recipe or DEFAULT_PRESET[split.file.source]
    fixed = dict(fixed)
    if flags.device is not None:
        fixed["runtime.device"] = flags.device
    if flags.seed is not None:
        fixed["runtime.seed"] = flags.seed
    elif seed_offset:
        # Also where --set names the seed: the same --set for all verbs must not make the reference a twin.
        fixed["runtime.seed"] = load_recipe(preset, flags.overrides).runtime.seed + seed_offset
    recipe = load_recipe(preset, flags.overrides, fixed)
    if flags.print_recipe:
        typer.echo(recipe.to_yaml(), nl=False)
        return
    settled_method(recipe, split, split.classes.num_old if only_old_classes else len(split.classes.names))
    if old == DEFAULT_OLD and not needs_old and not (flags.run_root / old / "best.pt").exists():
        old = None
    job = RunRequest(
        recipe=recipe,
        split=split,
        folder=folder,
        old=find_checkpoint(old, flags.run_root) if old is not None else None,
        refs=tuple(find_checkpoint(ref, flags.run_root) for ref in refs or ()),
        only_old_classes=only_old_classes,
        resume=flags.resume,
        overwrite=flags.overwrite,
    )
    refuse_own_inputs(folder, job.teachers)
    if flags.dry_run:
        from mptctl.training.dry_run import dry_run

        plan = dry_run(job)
        typer.echo(plan.model_dump_json() if flags.as_json else "\n".join(describe(plan)))
        if not flags.as_json:
            typer.echo("nothing was written")
        return
    result = train(job, observer())
    if not _leads():
        return
    if flags.as_json:
        typer.echo(result.summary().model_dump_json())
    else:
        typer.echo(str(result.run.best))


def describe(plan: DryRun) -> list[str]:
    """What a run would be, as lines of text."""
    held = " (holds a run: needs --resume or --overwrite)" if plan.holds_run and not plan.from_step else ""
    bias = f", k {plan.k:g}" if plan.k else ""
    begun = f", {plan.from_step:,} of them done" if plan.from_step else ""
    lines = {
        "run folder": f"{plan.run}{held}",
        "method": f"{plan.method}{bias}, seed {plan.seed}",
        "model": f"{plan.arch}, {plan.weights:,} trained weights, {plan.classes} classes ({plan.old_classes} old)",
        "teachers": ", ".join(plan.teachers) or "none",
        "pictures": f"{plan.pictures['train']:,} for training, {plan.pictures['val']:,} for validation",
        "steps": f"{plan.total_steps:,} ({plan.steps_per_epoch:,} an epoch){begun}, batch size "
        f"{plan.batch_size}, lr {plan.lr:g}",
        "device": plan.device,
        "loader": plan.loader,
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


def _leads() -> bool:
    import os

    return os.environ.get("RANK", "0") == "0"
