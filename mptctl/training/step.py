"""One optimizer step: forward, loss and gradient, update."""

from __future__ import annotations

from torch import Tensor, nn

from mptctl.data.loading.batch import Batch
from mptctl.machine.device import autocast
from mptctl.methods.method import Method
from mptctl.names import Role
from mptctl.training.guard import NonFiniteGuard
from mptctl.training.optim import learning_rate
from mptctl.training.run import Run


def train_step(
    run: Run, student: nn.Module, guard: NonFiniteGuard, method: Method, batch: Batch, global_rows: int
) -> tuple[dict[str, Tensor], float]:
    """One optimizer step; nothing in it waits for the device.

    Args:
        run: the run.
        student: the model as it is called (wrapped, compiled).
        guard: against numbers that are not finite.
        method: as it is in this epoch.
        batch: this worker's part of the global batch.
        global_rows: pictures of the global batch, over all workers.

    Returns:
        The step's terms and counts as scalars on the device, and its learning rate.
    """
    optim, runtime = run.recipe.optim, run.recipe.runtime
    rate = learning_rate(optim, run.progress.global_step, run.train.steps_per_epoch, run.total_steps)
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    guard.before_forward()
    # Gradients are averaged over the workers afterwards, hence the division by their number here.
    normalizer = global_rows / run.workers.size
    totals: dict[str, Tensor] = {}
    pieces = _micro_batches(batch, optim.accumulate)
    for number, piece in enumerate(pieces, start=1):
        answers = run.teachers.logits(piece, method.teachers) if run.teachers is not None else {}
        old, ref = answers.get(Role.OLD), answers.get(Role.REF)
        with run.workers.sync_gradients(student, now=number == len(pieces)):
            with autocast(run.device, runtime.precision):
                logits = student(piece.images)
            terms, grad = method.value_and_grad(logits, piece.labels, old, ref, normalizer=normalizer)
            logits.backward(grad)
        totals = {name: totals[name] + term for name, term in terms.items()} if totals else terms
    trained = {name: p for name, p in run.model.named_parameters() if p.grad is not None}
    gradients = {name: p.grad for name, p in trained.items() if p.grad is not None}
    guard.check(totals, gradients, run.progress.global_step)
    if optim.clip_grad_norm is not None:
        nn.utils.clip_grad_norm_(trained.values(), optim.clip_grad_norm)
    run.workers.maximum(guard.skip)
    run.optimizer.found_inf = guard.skip  # type: ignore[attr-defined]
    run.optimizer.step()
    run.optimizer.zero_grad()
    return totals, rate


def _micro_batches(batch: Batch, accumulate: int) -> list[Batch]:
    """The batch in so many parts, each of which knows where it stands."""
    if accumulate == 1:
        return [batch]
    parts, position = [], batch.position
    for images, labels, index in zip(
        batch.images.tensor_split(accumulate),
        batch.labels.tensor_split(accumulate),
        batch.index.tensor_split(accumulate),
        strict=True,
    ):
        parts.append(Batch(images, labels, index, batch.epoch, position))
        position += len(index)
    return parts
