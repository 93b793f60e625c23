"""The lines that a dry run of a training prints for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptctl.report.media.numbers import duration

if TYPE_CHECKING:
    from mptctl.training.dry_run import DryRun


def describe_dry_run(plan: DryRun) -> list[str]:
    """The plan of a training as lines for a person: recipe, teachers, pictures, steps and time."""
    is_resumed = plan.from_step > 0
    occupied = " (holds a run: needs --resume or --overwrite)" if plan.holds_run and not is_resumed else ""
    steps_done = f", {plan.from_step:,} of them done" if is_resumed else ""
    epochs = "epoch" if plan.epochs == 1 else "epochs"
    lines = {
        "recipe": plan.recipe,
        "run folder": f"{plan.run}{occupied}",
        "method": f"{plan.method}{_describe_bias(plan)}, seed {plan.seed}",
        "model": f"{plan.arch}, {plan.weights:,} trained weights, {plan.classes} classes ({plan.old_classes} "
        f"old), pictures of {plan.image_size} x {plan.image_size}",
        "teachers": ", ".join(plan.teachers) or "none",
        "pictures": f"{plan.pictures['train']:,} for training, {plan.pictures['val']:,} for validation",
        "trained on": plan.seen_in_training,
        "judged on": plan.seen_in_evaluation,
        "steps": f"{plan.total_steps:,} ({plan.steps_per_epoch:,} an epoch){steps_done}, {plan.epochs:,} "
        f"{epochs}, batch size {plan.batch_size}, lr {plan.lr:g}",
        "device": plan.device,
        "loader": plan.loader,
        "takes": f"about {duration(plan.estimate.seconds)} ({1000 * plan.estimate.step_seconds:.1f} ms a "
        "step, from three on random tensors), without validation and the reading of pictures",
    }
    return [*(f"{key:<12}{value}" for key, value in lines.items()), *plan.notes]


def _describe_bias(plan: DryRun) -> str:
    """The part of a line that says which k is added; empty for a training without."""
    if plan.max_nfr is not None:
        return f", k from {plan.k:g} on, moved to keep NFR within {plan.max_nfr:g} %"
    return f", k {plan.k:g}" if plan.k else ""
