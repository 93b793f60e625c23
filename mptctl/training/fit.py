"""The one training loop: every method, every verb, every trial of a sweep."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import NoReturn

import torch

from mptctl.data.loading.batch import Batch
from mptctl.errors import NonFiniteError, Stopped
from mptctl.machine.signals import StopRequest
from mptctl.methods.method import COUNTS, Method
from mptctl.methods.rows import first_best_epoch
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.metrics_log import MetricsLine, read_metrics
from mptctl.models.networks import set_training_mode
from mptctl.models.validation import NOT_VALIDATED, Validation
from mptctl.training.ahead import TeachersAhead, has_spare_core
from mptctl.training.metrics_logger import MetricsLogger
from mptctl.training.observer import FitResult, Observer
from mptctl.training.optim import learning_rate
from mptctl.training.resume import training_state
from mptctl.training.run import Run, RunContext, RunState, Student
from mptctl.training.step import train_step

# Several workers agree on stopping and reporting once in so many steps, since agreeing waits for the device.
SYNC_EVERY = 10
# What held a run up is said where it took more than a minute and waited for more than a twentieth of it.
LONG_RUN, LONG_WAIT = 60.0, 0.05


def fit(run: Run, stop: StopRequest, observer: Observer) -> FitResult:
    """Train until the recipe's end; see `fit_by_steps`."""
    steps = fit_by_steps(run, stop, observer)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: FitResult = end.value
            return result


def fit_by_steps(run: Run, stop: StopRequest, observer: Observer) -> Generator[None, None, FitResult]:
    """Train until the recipe's end, and pause after each step, so that several runs can take turns.

    Args:
        run: ready to go.
        stop: set by a signal.
        observer: told how it goes.

    Returns:
        What came of it, when the last step is validated and saved.

    Raises:
        NonFiniteError: a loss or gradient is not finite; the weights of the step before are saved.
        Stopped: a signal asked for it; everything is saved.
        StorageError: a checkpoint could not be written; the one before is kept.
    """
    started = time.monotonic()
    context, state = run.context, run.state
    first = state.global_step
    observer.started(context.folder.path.name, context.total_steps, state.global_step, context.notes)
    logger = MetricsLogger(context, state, observer)
    try:
        yield from _Loop(run, stop, logger).run()
    finally:
        logger.close()
    seconds = time.monotonic() - started
    epochs = math.ceil(context.total_steps / context.train.steps_per_epoch)
    waited = seconds > LONG_RUN and context.train.stats.wait_share > LONG_WAIT
    result = FitResult(
        run=context.folder,
        steps=state.global_step,
        trained=state.global_step - first,
        epochs=epochs,
        validation=state.validation,
        best=_best_epoch(run, epochs) if context.group.is_main else None,
        best_error=state.best_error,
        seconds=seconds,
        data=context.train.bottleneck() if waited else None,
    )
    observer.finished(result)
    return result


def _best_epoch(run: Run, epochs: int) -> MetricsLine | None:
    """The epoch whose weights ``best.pt`` has: the latest of those with the lowest error in which the method was on."""
    lowest, first = run.state.best_error, first_best_epoch(run.context.recipe.method, epochs)
    found = (
        line
        for line in reversed(read_metrics(run.context.folder.metrics))
        if line.event == "epoch" and line.epoch > first and line.val_error == lowest
    )
    return None if lowest is None else next(found, None)


class _Loop:
    """Epoch after epoch: steps, validation, checkpoints. Owns the state of the run."""

    def __init__(self, run: Run, stop: StopRequest, logger: MetricsLogger) -> None:
        self.context: RunContext = run.context
        self.student: Student = run.student
        self.state: RunState = run.state
        self.stop = stop
        self.logger = logger
        self.first_step = run.state.global_step

    def run(self) -> Iterator[None]:
        """From where the run stands to its end, with a pause after each step."""
        context, state = self.context, self.state
        # A run may have been stopped at its very last step, before it was validated there.
        while state.global_step < context.total_steps or state.validation_pending:
            with context.group.checked():
                yield from self._train_epoch()
            validation = self._validate()
            on = self._follow_flips(validation)
            if state.step_in_epoch >= context.train.steps_per_epoch:
                state.epoch += 1
                state.step_in_epoch = 0
            self._save_validated(validation, on)
            state.validation_pending = False
        if context.validator is None and context.group.is_main:
            self._save_best()
        self.logger.event("done", state.validation)

    def _train_epoch(self) -> Iterator[None]:
        """Train from where the run is to the end of its epoch, or to the run's last step."""
        context, state = self.context, self.state
        if state.global_step >= context.total_steps:
            return
        set_training_mode(self.student.model, context.recipe.model)
        epochs = -(-context.total_steps // context.train.steps_per_epoch)
        student = replace(self.student, method=self._method(epochs))
        left = context.total_steps - state.global_step
        batches = islice(context.train.epoch(state.epoch, state.step_in_epoch), left)
        if (
            student.teachers is not None
            and student.method.teachers
            and not context.in_lockstep
            and has_spare_core(context.device, context.group.size)
        ):
            teachers = TeachersAhead(student.teachers, student.method.teachers, student.accumulate)
            with closing(teachers.over(batches)) as ahead:
                yield from self._train_on(ahead, replace(student, teachers=teachers))
        else:
            yield from self._train_on(batches, student)
        self._stop_on_non_finite()
        self.logger.flush()

    def _train_on(self, batches: Iterator[Batch], student: Student) -> Iterator[None]:
        """A step for each batch, with a pause after it."""
        rows, group = self.context.recipe.optim.batch_size, self.context.group
        asked = time.monotonic()
        for batch in batches:
            waited = time.monotonic() - asked
            lr = self._learning_rate(self.state.global_step)
            terms = train_step(student, batch, lr, rows / group.size)
            self.state.step_in_epoch += 1
            self.state.global_step += 1
            self._after_step(self.logger.step(terms, lr, rows, waited))
            yield
            asked = time.monotonic()

    def _method(self, epochs: int) -> Method:
        """The method as it is in this epoch."""
        method, control = self.student.method.for_epoch(self.state.epoch, epochs), self.context.bias_control
        if control is None or self.state.bias_path is None:
            return method
        return replace(method, settings=method.settings._replace(k=control.k(self.state.bias_path)))

    def _follow_flips(self, validation: Validation) -> bool:
        """Take in the flips after an epoch, from which k follows; whether the epoch can be the best one."""
        state, control = self.state, self.context.bias_control
        if control is None or state.bias_path is None:
            return self.student.method.is_on(state.epoch)
        flips = torch.tensor(float(validation.flips or 0), device=self.context.device)
        state.bias_path = control.after(state.bias_path, int(self.context.group.maximum(flips)))
        return state.epoch >= control.fixed_from

    def _after_step(self, time_for_line: bool) -> None:
        """Report, save and stop, where it is time for it."""
        group, device, stop = self.context.group, self.context.device, bool(self.stop)
        if group.size > 1:
            agree = self.state.global_step % SYNC_EVERY == 0
            time_for_line = agree and group.any(time_for_line, device)
            stop = agree and group.any(stop, device)
        # On a CPU looking at a number costs nothing, so that a run stops at the very step.
        if time_for_line or stop or device.type == "cpu":
            self._stop_on_non_finite()
        if time_for_line or stop:
            self.logger.flush()
        if stop:
            self._save_and_stop()
        save_every = self.context.recipe.runtime.checkpoint_every_steps
        if save_every and self.state.global_step % save_every == 0:
            self._stop_on_non_finite()
            self._save_last(NOT_VALIDATED)

    def _stop_on_non_finite(self) -> None:
        failed = self.student.guard.failed()
        if failed is None:
            return
        self.student.guard.restore()
        folder, step = self.context.folder.path, self.first_step + failed.step
        values = ", ".join(f"{n} {v:.4g}" for n, v in failed.terms.items() if n not in COUNTS.values())
        if self.context.group.is_main:
            self.state.step_in_epoch -= self.state.global_step - step
            self.state.global_step = step
            model = self.student.model.state_dict()
            save_checkpoint(folder / "nonfinite.pt", self._meta(NOT_VALIDATED), model)
        raise NonFiniteError(
            f"{folder}: step {step + 1}: not finite: {failed.what} ({values}, learning rate "
            f"{self._learning_rate(step):.4g}); the weights before that step are in nonfinite.pt; lower optim.lr, or "
            "set optim.clip_grad_norm"
        )

    def _validate(self) -> Validation:
        """Figures of the epoch just trained. A signal breaks it off; the run is saved as before it."""
        validation, context = NOT_VALIDATED, self.context
        if context.validator is None:
            return validation
        broken_off = False
        if context.group.is_main:
            try:
                with self.stop.breaks_off():
                    validation = context.validator.run(self.student.evaluated, self.logger.observer.progress)
            except KeyboardInterrupt:
                broken_off = True
        if context.group.any(broken_off, context.device):
            self._save_and_stop()
        return validation

    def _save_and_stop(self) -> NoReturn:
        self._save_last(NOT_VALIDATED)
        raise Stopped(
            f"{self.context.folder.path}: saved at step {self.state.global_step} of {self.context.total_steps}",
            self.stop.signum or signal.SIGTERM,
            resumable=True,
        )

    def _save_validated(self, validation: Validation, on: bool) -> None:
        """Write down an epoch; it can be the best one only where the method was ``on`` in it."""
        state = self.state
        state.validation = validation
        if self.context.validator is not None and self.context.group.is_main:
            self.logger.event("epoch", validation)
            error, best = validation.error, state.best_error
            # Of equally good ones the latest, which has been trained at the lowest rate: on a small validation part
            # many epochs are equally good.
            if on and error is not None and (best is None or error <= best):
                state.best_error = error
                self._save_best()
        self._save_last(validation)

    def _save_best(self) -> None:
        model = self.student.evaluated.state_dict()
        save_checkpoint(self.context.folder.best, self._meta(self.state.validation), model)

    def _save_last(self, validation: Validation) -> None:
        folder, student = self.context.folder, self.student
        if self.context.group.is_main:
            model, training = student.model.state_dict(), training_state(student)
            save_checkpoint(folder.last, self._meta(validation), model, training, folder.previous)
            self.logger.event("checkpoint")
        self.context.group.wait()

    def _learning_rate(self, step: int) -> float:
        context = self.context
        steps = context.train.steps_per_epoch
        return learning_rate(context.recipe.optim, step, steps, context.total_steps)

    def _meta(self, validation: Validation) -> CheckpointMeta:
        keys = ("epoch", "step_in_epoch", "global_step", "best_error")
        stands = {key: getattr(self.state, key) for key in keys}
        stands["bias_path"] = self.state.bias_path
        return self.context.meta.model_copy(update={**stands, "metrics": validation.figures()})
