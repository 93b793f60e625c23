"""The training loop of every method, command and trial."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NoReturn

import torch

from mptctl.data.loading.part import Batch
from mptctl.errors import NonFiniteError, Stopped
from mptctl.machine.signals import StopRequest
from mptctl.methods.method import COUNTS
from mptctl.methods.rows import first_best_epoch
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.metrics_log import best_epoch, epochs_without_gain, read_metrics
from mptctl.models.networks import set_training_mode
from mptctl.models.records import NOT_VALIDATED, Validation
from mptctl.teachers.ensemble import Teachers
from mptctl.training.ahead import TeachersAhead, has_spare_core
from mptctl.training.graphed import CudaRecorder, GraphedStep
from mptctl.training.metrics_logger import MetricsLogger
from mptctl.training.observer import FitResult, Observer
from mptctl.training.optimizer.optim import learning_rate
from mptctl.training.plan import takes_graph
from mptctl.training.resume import training_state
from mptctl.training.run import PROGRESS, Run
from mptctl.training.step import train_step

# Several workers agree on stopping and reporting once in so many steps, since agreeing waits for the device.
SYNC_EVERY = 10
# Seconds, and a fraction of them. A longer run that waited longer for batches reports its bottleneck.
LONG_RUN, LONG_WAIT = 60.0, 0.05


class Trainer:
    """Trains a run to its end.

    Args:
        run: assembled, and resumed where it continues a checkpoint. Its state is changed in place.
        stop: set by a signal.
        observer: told of the start, of each line of the log, and of the end.
    """

    def __init__(self, run: Run, stop: StopRequest, observer: Observer) -> None:
        self._started = time.monotonic()
        state = run.state
        self._run, self._state = run, state
        self._stop = stop
        self._observer = observer
        self._first_step = state.global_step
        self._first_best_epoch = first_best_epoch(run.recipe.method, run.epochs)
        self._method = run.student.method  # for all epochs; the student's own is that of the current epoch
        self._student = run.student
        self._ahead: TeachersAhead | None = None
        spare_core = has_spare_core(run.device, run.group.size)
        if spare_core and run.student.teachers is not None:
            self._ahead = TeachersAhead(run.student.teachers, run.recipe.optim.accumulate)
            self._student = replace(run.student, teachers=self._ahead)
        notes = [run.train.reason, *run.notes]
        self._graphed: GraphedStep | None = None
        if takes_graph(run.recipe, run.device, run.group.size):
            self._graphed = GraphedStep(
                CudaRecorder(run.device),
                teachers_inside=isinstance(run.student.teachers, Teachers),
                on_failure=observer.noted if run.recipe.runtime.graph is None else None,
            )
            notes.append("steps are replayed as one CUDA graph (runtime.graph says otherwise)")
        observer.started(run.folder.path.name, run.total_steps, state.global_step, notes)
        self._logger = MetricsLogger(run, observer)

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *error: object) -> None:
        if self._ahead is not None:
            self._ahead.close()
        if self._graphed is not None:
            self._graphed.close()
        self._logger.close()

    def fit(self) -> FitResult:
        """Take all steps that are left, validating and saving after each epoch; to be called once.

        Raises:
            NonFiniteError: a loss or gradient is not finite; the weights before that step are saved.
            Stopped: a signal came; the run is saved and can be resumed.
            StorageError: a checkpoint could not be written; the one before is kept.
        """
        # A run may have been stopped at its very last step, before it was validated there.
        while self._state.validation_pending or not self._is_over():
            with self._run.group.checked():
                batches, asked = self._begin_epoch(), time.monotonic()
                while (batch := next(batches, None)) is not None:
                    self._train_on(batch, waited=time.monotonic() - asked)
                    asked = time.monotonic()
                self._raise_if_non_finite()
                self._logger.flush()
            self._end_epoch()
        return self._finish()

    def _finish(self) -> FitResult:
        """Write the last line, tell the observer, and return the result.

        In a run without validation this also writes ``best.pt``.
        """
        run, state = self._run, self._state
        if run.validator is None and run.group.is_main:
            self._save_best()
        self._logger.event("done", state.validation)
        seconds = time.monotonic() - self._started
        has_waited = seconds > LONG_RUN and run.train.stats.wait_share > LONG_WAIT
        lines = read_metrics(run.folder.metrics) if run.group.is_main else []
        result = FitResult(
            run=run.folder,
            steps=state.global_step,
            trained=state.global_step - self._first_step,
            epochs=run.epochs,
            validation=state.validation,
            best=best_epoch(lines, self._first_best_epoch),
            best_error=state.best_error,
            seconds=seconds,
            data=run.train.describe_bottleneck() if has_waited else None,
            ended_after=state.epoch if state.global_step < run.total_steps else None,
        )
        self._observer.finished(result)
        return result

    def _begin_epoch(self) -> Iterator[Batch]:
        """Set the student's mode, method and k for the current epoch, and return the batches left of it."""
        run, state = self._run, self._state
        set_training_mode(self._student.model, run.recipe.model)
        method = self._method.for_epoch(state.epoch, run.epochs)
        if run.bias_control is not None and state.bias_path is not None:
            k = run.bias_control.next_k(state.bias_path)
            method = replace(method, settings=method.settings._replace(k=k))
        self._student = replace(self._student, method=method)
        left = run.total_steps - state.global_step
        batches = islice(run.train.epoch(state.epoch, state.step_in_epoch), left)
        if self._ahead is None or not method.teachers:
            return batches
        return self._ahead.over(batches, method.teachers)

    def _train_on(self, batch: Batch, waited: float) -> None:
        """Take one optimizer step, then report, save and stop where that is due."""
        run, state = self._run, self._state
        rows, lr = run.recipe.optim.batch_size, self._learning_rate(state.global_step)
        take_step = self._graphed or train_step
        terms = take_step(self._student, batch, lr, rows / run.group.size)
        state.step_in_epoch += 1
        state.global_step += 1
        report, stop = self._logger.step(terms, lr, rows, waited), bool(self._stop)
        if run.group.size > 1:
            agree = state.global_step % SYNC_EVERY == 0
            report = agree and run.group.any(report, run.device)
            stop = agree and run.group.any(stop, run.device)
        # On a CPU the check waits for nothing, so it is made in every step.
        if report or stop or run.device.type == "cpu":
            self._raise_if_non_finite()
        if report or stop:
            self._logger.flush()
        if stop:
            self._save_and_stop()
        save_every = run.recipe.runtime.checkpoint_every_steps
        if save_every and state.global_step % save_every == 0:
            self._raise_if_non_finite()
            self._save_last(NOT_VALIDATED)

    def _end_epoch(self) -> None:
        """Validate, extend the path of k, and save best.pt and last.pt."""
        run, state = self._run, self._state
        state.validation = validation = self._validate()
        if run.bias_control is not None and state.bias_path is not None:
            flips = torch.tensor(float(validation.flips or 0), device=run.device)
            state.bias_path = run.bias_control.extend(state.bias_path, int(run.group.maximum(flips)))
        can_be_best = state.epoch >= self._first_best_epoch
        if state.step_in_epoch >= run.train.steps_per_epoch:
            state.epoch += 1
            state.step_in_epoch = 0
        if run.validator is not None and run.group.is_main:
            self._logger.event("epoch", validation)
            error, best = validation.error, state.best_error
            # Of equally good epochs the latest is kept, since its learning rate is lowest. On a small
            # validation part many epochs are equally good.
            if can_be_best and error is not None and (best is None or error <= best):
                state.best_error = error
                self._save_best()
        self._save_last(validation)
        state.validation_pending = False

    def _is_over(self) -> bool:
        """Tell whether all steps are done, or validation has not improved for ``optim.patience`` epochs."""
        run, state = self._run, self._state
        patience = run.recipe.optim.patience
        if state.global_step >= run.total_steps:
            return True
        if patience is None:
            return False
        out_of_patience = False
        if run.group.is_main:
            lines = read_metrics(run.folder.metrics)
            out_of_patience = epochs_without_gain(lines, self._first_best_epoch) >= patience
        return run.group.any(out_of_patience, run.device)

    def _validate(self) -> Validation:
        """Measure the validation part on the main worker; NOT_VALIDATED on others, or without the part.

        Raises:
            Stopped: a signal came; the run is saved as not validated.
        """
        validation, run = NOT_VALIDATED, self._run
        if run.validator is None:
            return validation
        broken_off = False
        if run.group.is_main:
            try:
                with self._stop.interrupts_at_once():
                    validation = run.validator.run(self._student.evaluated, self._observer.progress)
            except KeyboardInterrupt:
                broken_off = True
        run.group.wait(long=True)  # the others wait for the main worker, however long it takes
        if run.group.any(broken_off, run.device):
            self._save_and_stop()
        return validation

    def _raise_if_non_finite(self) -> None:
        """Raise NonFiniteError if a step was not finite, with the weights before it saved in nonfinite.pt."""
        run, state, guard = self._run, self._state, self._student.guard
        failed = guard.failed()
        if failed is None:
            return
        guard.restore()
        folder, step = run.folder.path, self._first_step + failed.step
        terms = {name: term for name, term in failed.terms.items() if name not in COUNTS.values()}
        values = ", ".join(f"{name} {term:.4g}" for name, term in terms.items())
        if run.group.is_main:
            state.step_in_epoch -= state.global_step - step
            state.global_step = step
            save_checkpoint(
                folder / "nonfinite.pt", self._meta(NOT_VALIDATED), self._student.model.state_dict()
            )
        raise NonFiniteError(
            f"{folder}: step {step + 1}: not finite: {failed.what} ({values}, learning rate "
            f"{self._learning_rate(step):.4g}); the weights before that step are in nonfinite.pt; lower "
            "optim.lr, or set optim.clip_grad_norm"
        )

    def _save_and_stop(self) -> NoReturn:
        """Save last.pt as not validated, and raise Stopped."""
        self._save_last(NOT_VALIDATED)
        raise Stopped(
            f"{self._run.folder.path}: saved at step {self._state.global_step} of {self._run.total_steps}",
            self._stop.signum or signal.SIGTERM,
            resumable=True,
        )

    def _save_best(self) -> None:
        """Write the model to best.pt, without what a resumed run needs."""
        model = self._student.evaluated.state_dict()
        save_checkpoint(self._run.folder.best, self._meta(self._state.validation), model)

    def _save_last(self, validation: Validation) -> None:
        """Save the run in last.pt, rename the last.pt before to previous.pt, and wait for all workers."""
        folder, student = self._run.folder, self._student
        if self._run.group.is_main:
            model, training = student.model.state_dict(), training_state(student)
            save_checkpoint(folder.last, self._meta(validation), model, training, folder.previous)
            self._logger.event("checkpoint")
        self._run.group.wait()

    def _learning_rate(self, step: int) -> float:
        """The learning rate of the step after ``step`` steps."""
        run = self._run
        return learning_rate(run.recipe.optim, step, run.train.steps_per_epoch, run.total_steps)

    def _meta(self, validation: Validation) -> CheckpointMeta:
        """The meta of a checkpoint of the run at its current step."""
        progress = {name: getattr(self._state, name) for name in PROGRESS}
        return self._run.meta.model_copy(update=progress | {"metrics": validation.figures()})
