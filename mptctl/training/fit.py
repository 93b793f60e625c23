"""The one training loop: every method, every verb, every trial of a sweep."""

from __future__ import annotations

import signal
import time
from typing import Any, NoReturn

import torch
from torch import nn

from mptctl.errors import NonFiniteError, Stopped
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.networks import set_training_mode
from mptctl.training.guard import NonFiniteGuard
from mptctl.training.meter import MetricsLogger
from mptctl.training.observer import Observer
from mptctl.training.optim import learning_rate
from mptctl.training.result import FitResult
from mptctl.training.run import Run
from mptctl.training.step import train_step
from mptctl.training.validate import NOT_VALIDATED, Validation

# Several workers agree on stopping and reporting once in so many steps, since agreeing waits for the device.
SYNC_EVERY = 10


def fit(run: Run, observer: Observer) -> FitResult:
    """Train until the recipe's end.

    Raises:
        NonFiniteError: a loss or gradient is not finite; the weights of the step before are saved.
        Stopped: a signal asked for it; everything is saved.
        StorageError: a checkpoint could not be written; the one before is kept.
    """
    started = time.monotonic()
    observer.started(run.folder.path.name, run.total_steps, run.progress.global_step, run.notes)
    student: nn.Module = run.workers.wrap(run.model, run.device)
    if run.recipe.runtime.compile:
        student = torch.compile(student)  # type: ignore[assignment]
    guard = NonFiniteGuard(run.model, run.device)
    meter = MetricsLogger(run, observer)
    validation = run.validation
    try:
        # A run may have been stopped at its very last step, before it was validated there.
        while run.progress.global_step < run.total_steps or run.validation_pending:
            run.workers.checked_collective(lambda: _train_epoch(run, student, guard, meter))
            validation = _validate(run, meter)
            on = run.method.is_on(run.progress.epoch)
            if run.progress.step_in_epoch >= run.train.steps_per_epoch:
                run.progress.epoch += 1
                run.progress.step_in_epoch = 0
            _save_validated(run, meter, validation, on)
            run.validation_pending = False
        if run.validator is None and run.workers.is_main:
            _save_best(run, validation)
        meter.event("done", validation)
        seconds = time.monotonic() - started
        result = FitResult(
            run.folder,
            run.progress.global_step,
            validation,
            run.progress.best_error,
            seconds,
            run.train.bottleneck(),
        )
        observer.finished(result)
        return result
    finally:
        meter.close()


def training_state(run: Run) -> dict[str, Any]:
    """What a resumed run needs beside weights and progress: the optimizer's and the random generators' state."""
    state: dict[str, Any] = {"optimizer": run.optimizer.state_dict(), "rng": torch.get_rng_state()}
    if run.device.type == "cuda":
        state["rng_cuda"] = torch.cuda.get_rng_state(run.device)
    return state


def _train_epoch(run: Run, student: nn.Module, guard: NonFiniteGuard, meter: MetricsLogger) -> None:
    """Train from where the run is to the end of its epoch, or to the run's last step."""
    if run.progress.global_step >= run.total_steps:
        return
    set_training_mode(run.model, run.recipe.model)
    method = run.method.for_epoch(run.progress.epoch)
    save_every = run.recipe.runtime.checkpoint_every_steps
    global_rows = run.recipe.optim.batch_size
    # On a CPU looking at a number costs nothing, so that a run stops at the very step.
    check_every_step = run.device.type == "cpu"
    batches = run.train.epoch(run.progress.epoch, run.progress.step_in_epoch)
    asked = time.monotonic()
    for batch in batches:
        waited = time.monotonic() - asked
        terms, rate = train_step(run, student, guard, method, batch, global_rows)
        run.progress.step_in_epoch += 1
        run.progress.global_step += 1
        time_for_line = meter.step(terms, rate, global_rows, waited)
        stop = bool(run.stop)
        if run.workers.size > 1:
            agree = run.progress.global_step % SYNC_EVERY == 0
            time_for_line = agree and run.workers.any(time_for_line, run.device)
            stop = agree and run.workers.any(stop, run.device)
        if time_for_line or stop or check_every_step:
            _stop_on_non_finite(run, guard)
        if time_for_line or stop:
            meter.flush()
        if stop:
            _save_and_stop(run, meter)
        if save_every and run.progress.global_step % save_every == 0:
            _stop_on_non_finite(run, guard)
            _save_last(run, meter)
        if run.progress.global_step >= run.total_steps:
            break
        asked = time.monotonic()
    _stop_on_non_finite(run, guard)
    meter.flush()


def _stop_on_non_finite(run: Run, guard: NonFiniteGuard) -> None:
    failed = guard.failed()
    if failed is None:
        return
    guard.restore()
    step = failed.step
    rate = learning_rate(run.recipe.optim, step, run.train.steps_per_epoch, run.total_steps)
    values = ", ".join(f"{n} {v:.4g}" for n, v in failed.terms.items() if not n.startswith("correct"))
    if run.workers.is_main:
        run.progress.step_in_epoch -= run.progress.global_step - step
        run.progress.global_step = step
        save_checkpoint(run.folder.path / "nonfinite.pt", _meta(run, NOT_VALIDATED), run.model.state_dict())
    raise NonFiniteError(
        f"{run.folder.path}: step {step + 1}: not finite: {failed.what} ({values}, learning rate {rate:.4g}); "
        "the weights before that step are in nonfinite.pt; lower optim.lr, or set optim.clip_grad_norm"
    )


def _validate(run: Run, meter: MetricsLogger) -> Validation:
    """Figures of the epoch just trained. A signal breaks it off; the run is saved as before it."""
    validation = NOT_VALIDATED
    if run.validator is None:
        return validation
    broken_off = False
    if run.workers.is_main:
        try:
            with run.stop.breaks_off():
                validation = run.validator.run(run.model)
        except KeyboardInterrupt:
            broken_off = True
    if run.workers.any(broken_off, run.device):
        _save_and_stop(run, meter)
    return validation


def _save_and_stop(run: Run, meter: MetricsLogger) -> NoReturn:
    _save_last(run, meter)
    raise Stopped(
        f"{run.folder.path}: saved at step {run.progress.global_step} of {run.total_steps}",
        run.stop.signum or signal.SIGTERM,
        resumable=True,
    )


def _save_validated(run: Run, meter: MetricsLogger, validation: Validation, on: bool) -> None:
    """Write down an epoch; it can be the best one only where the method was ``on`` in it."""
    if run.validator is not None and run.workers.is_main:
        meter.event("epoch", validation)
        best = run.progress.best_error
        # Of equally good ones the latest, which has been trained at the lowest rate: on a small validation part
        # many epochs are equally good.
        if on and validation.error is not None and (best is None or validation.error <= best):
            run.progress.best_error = validation.error
            _save_best(run, validation)
    _save_last(run, meter, validation)


def _save_best(run: Run, validation: Validation) -> None:
    save_checkpoint(run.folder.best, _meta(run, validation), run.model.state_dict())


def _save_last(run: Run, meter: MetricsLogger, validation: Validation | None = None) -> None:
    if run.workers.is_main:
        save_checkpoint(
            run.folder.last,
            _meta(run, validation or NOT_VALIDATED),
            run.model.state_dict(),
            training_state(run),
            keep_previous=run.folder.previous,
        )
        meter.event("checkpoint")
    run.workers.wait()


def _meta(run: Run, validation: Validation) -> CheckpointMeta:
    return run.meta.model_copy(
        update={
            "epoch": run.progress.epoch,
            "step_in_epoch": run.progress.step_in_epoch,
            "global_step": run.progress.global_step,
            "best_error": run.progress.best_error,
            "metrics": {
                "val_error": validation.error,
                "val_error_old": validation.error_old,
                "val_nfr": validation.nfr,
            },
        }
    )
