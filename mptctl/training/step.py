"""The optimizer step: forward pass, loss and its gradient, backward pass, update."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mptctl.data.loading.part import Batch
from mptctl.machine.device import autocast
from mptctl.models.layers import count_drop_block_step
from mptctl.names import Role
from mptctl.training.optimizer.optim import in_memory_order, set_learning_rate
from mptctl.training.run import Student


def train_step(student: Student, batch: Batch, lr: float, normalizer: float) -> dict[str, Tensor]:
    """Take an optimizer step on a batch, part by part; never waits for the device.

    Moves the student's weights and their average, unless a number is not finite.

    Args:
        student: model, loss, teachers and optimizer, with the method of the current epoch.
        batch: this worker's part of the global batch.
        lr: learning rate.
        normalizer: divisor of sums over rows: rows of the global batch / number of workers. Gradients are
            averaged over the workers afterwards.

    Returns:
        The terms of the loss and the counts of right predictions, summed over the parts; scalars on the
        device.
    """
    begin_step(student, lr)
    return compute_step(student, batch.split_into(student.recipe.optim.accumulate), normalizer)


def begin_step(student: Student, lr: float) -> None:
    """Do what the host does in a step besides launching, and what a graph of the step would leave out.

    It sets the learning rate, and counts the step for DropBlock and the average of the weights.
    """
    set_learning_rate(student.optimizer, lr)
    count_drop_block_step(student.drop_blocks)
    if student.average is not None:
        student.average.count_step()


def compute_step(
    student: Student,
    parts: Sequence[Batch],
    normalizer: float,
    logits_of_teachers: Sequence[dict[Role, Tensor]] | None = None,
) -> dict[str, Tensor]:
    """Compute the step that `begin_step` has begun: the host only launches work here.

    Args:
        student, normalizer: as for `train_step`.
        parts: of the batch.
        logits_of_teachers: of each part; None: the student's teachers are asked.

    Returns:
        As `train_step`.
    """
    student.guard.before_forward()
    totals: dict[str, Tensor] = {}
    for number, part in enumerate(parts, start=1):
        teachers = (
            ask_teachers(student, part) if logits_of_teachers is None else logits_of_teachers[number - 1]
        )
        with student.group.sync_gradients(student.wrapped, now=number == len(parts)):
            with autocast(part.images.device, student.recipe.runtime.precision):
                logits = student.wrapped(part.images)
            old, ref = teachers.get(Role.OLD), teachers.get(Role.REF)
            if part.mixing is None:
                terms, grad = student.method.value_and_grad(logits, part.labels, old, ref, normalizer)
            else:
                terms, grad = student.method.mixture_value_and_grad(
                    logits, part.labels, *part.mixing, old, ref, normalizer
                )
            logits.backward(grad)
        totals = {name: totals[name] + term for name, term in terms.items()} if totals else terms
    _update(student, totals)
    if student.average is not None:
        student.average.follow(student.model)
    return totals


def ask_teachers(student: Student, part: Batch) -> dict[Role, Tensor]:
    """Get the logits of the teachers that the student's method needs, for a part of a batch."""
    source, roles = student.teachers, student.method.teachers
    return {} if source is None or not roles else source.logits(part, roles)


def _update(student: Student, terms: dict[str, Tensor]) -> None:
    """Move the weights by their gradients, and clear these; skipped from the first non-finite step on."""
    trained = {name: p for name, p in student.model.named_parameters() if p.grad is not None}
    gradients = {name: p.grad for name, p in trained.items() if p.grad is not None}
    student.guard.check(terms, gradients)
    limit = student.recipe.optim.clip_grad_norm
    if limit is not None:
        nn.utils.clip_grad_norm_(trained.values(), limit)
    student.group.maximum(student.guard.skip)
    # Fused optimizers read `found_inf`, and skip the update where it is 1.
    student.optimizer.found_inf = student.guard.skip  # type: ignore[attr-defined]
    with in_memory_order(student.optimizer):
        student.optimizer.step()
    student.optimizer.zero_grad()
