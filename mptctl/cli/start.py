"""What the training verbs have in common: from flags to a job, and from its result to the terminal."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from mptctl.recipe import Recipe
    from mptctl.training.job import Job


DEFAULT_OLD = "old"


@dataclass(frozen=True)
class TrainFlags:
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
    flags: TrainFlags,
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
    from mptctl.recipe import DEFAULT_PRESET, load_recipe
    from mptctl.report.progress import observer
    from mptctl.training.job import Job, train
    from mptctl.training.ownership import refuse_own_inputs, run_folder
    from mptctl.training.rundir import find_checkpoint

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
    if old == DEFAULT_OLD and not needs_old and not (flags.run_root / old / "best.pt").exists():
        old = None
    job = Job(
        recipe=recipe,
        split=split,
        folder=folder,
        old=find_checkpoint(old, flags.run_root) if old is not None else None,
        refs=tuple(find_checkpoint(ref, flags.run_root) for ref in refs or ()),
        only_old_classes=only_old_classes,
        resume=flags.resume,
        overwrite=flags.overwrite,
        resume_command=resume_command(),
    )
    refuse_own_inputs(folder, job.teachers)
    if flags.dry_run:
        _say_what_would_be_done(job, recipe)
        return
    result = train(job, observer())
    if not _leads():
        return
    if flags.as_json:
        typer.echo(result.summary().model_dump_json())
    else:
        typer.echo(str(result.run.best))


def _say_what_would_be_done(job: Job, recipe: Recipe) -> None:
    from mptctl.training.device import choose_device
    from mptctl.training.distributed import Workers
    from mptctl.training.job import assemble
    from mptctl.training.rundir import RunDir
    from mptctl.training.signals import StopRequest

    if job.resume or job.overwrite:
        RunDir(job.folder).refuse_unusable(resume=job.resume, overwrite=job.overwrite)
    run = assemble(job, choose_device(recipe.runtime.device), Workers(), StopRequest())
    weights = sum(p.numel() for p in run.model.parameters() if p.requires_grad)
    held = RunDir(job.folder).last.exists() and not (job.resume or job.overwrite)
    lines = {
        "run folder": f"{job.folder}{' (holds a run: needs --resume or --overwrite)' if held else ''}",
        "method": run.method.name,
        "model": f"{recipe.model.arch}, {weights:,} trained weights, {job.num_classes} classes "
        f"({job.split.classes.num_old} old)",
        "teachers": ", ".join(str(p) for p in (job.old, *job.refs) if p) or "none",
        "pictures": f"{run.train.num_samples:,} for training, "
        f"{len(job.split.indices('val', job.num_classes)):,} for validation",
        "steps": f"{run.total_steps:,} ({run.train.steps_per_epoch:,} an epoch)",
        "device": str(run.device),
        "loader": run.train.reason,
    }
    run.train.close()
    for key, value in lines.items():
        typer.echo(f"{key:<12}{value}")
    typer.echo("no run was written")


def resume_command() -> str:
    words = [
        Path(sys.argv[0]).name,
        *(word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")),
    ]
    return shlex.join([*words, "--resume"])


def _leads() -> bool:
    import os

    return os.environ.get("RANK", "0") == "0"
