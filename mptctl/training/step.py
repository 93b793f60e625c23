"""The optimizer step: forward pass, loss and its gradient, backward pass, update."""

from __future__ import annotations

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
    set_learning_rate(student.optimizer, lr)
    student.guard.before_forward()
    count_drop_block_step(student.drop_blocks)
    totals: dict[str, Tensor] = {}
    parts = batch.split_into(student.accumulate)
    for number, part in enumerate(parts, start=1):
        source = student.teachers if student.method.teachers else None
        teachers = {} if source is None else source.logits(part, student.method.teachers)
        with student.group.sync_gradients(student.wrapped, now=number == len(parts)):
            with autocast(part.images.device, student.precision):
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
        student.average.update(student.model)
    return totals


def _update(student: Student, terms: dict[str, Tensor]) -> None:
    """Move the weights by their gradients, and clear these; skipped from the first non-finite step on."""
    trained = {name: p for name, p in student.model.named_parameters() if p.grad is not None}
    gradients = {name: p.grad for name, p in trained.items() if p.grad is not None}
    student.guard.check(terms, gradients)
    if student.clip_grad_norm is not None:
        nn.utils.clip_grad_norm_(trained.values(), student.clip_grad_norm)
    student.group.maximum(student.guard.skip)
    # Fused optimizers read `found_inf`, and skip the update where it is 1.
    student.optimizer.found_inf = student.guard.skip  # type: ignore[attr-defined]
    with in_memory_order(student.optimizer):
        student.optimizer.step()
    student.optimizer.zero_grad()
