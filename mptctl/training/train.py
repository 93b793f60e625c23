"""Training: from a request to a run folder that explains itself."""

from __future__ import annotations

import contextlib
import signal

from mptctl.errors import Stopped
from mptctl.machine.device import choose_device
from mptctl.machine.signals import stop_on_signals
from mptctl.models.metrics_log import truncate_metrics
from mptctl.models.ownership import left_alone, refuse_own_inputs
from mptctl.models.run_folder import RunDir
from mptctl.training.assemble import assemble
from mptctl.training.distributed import workers
from mptctl.training.fit import fit
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.result import FitResult
from mptctl.training.run import Run
from mptctl.training.threads import with_own_threads
from mptctl.training.torch_settings import torch_settings


def train(request: RunRequest, observer: Observer) -> FitResult:
    """Do what was asked for: assemble the run, hold its folder, train.

    Raises:
        MptctlError: every kind; see `fit`, `RunDir.locked`, `assemble`.
        Stopped: a signal came before the first step, or asked the loop to stop.
    """
    device = choose_device(request.recipe.runtime.device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch_settings(request.recipe, device))
        group = stack.enter_context(workers(device))
        if group.is_main:
            refuse_own_inputs(request.folder, request.teachers)
            folder = RunDir(request.folder)
            stack.enter_context(folder.locked(request.existing))
        stop = stack.enter_context(stop_on_signals())
        stack.callback(observer.closed)  # whatever it shows while pictures are decoded
        try:
            with stop.breaks_off():
                request, notes = with_own_threads(request, device)
                run = assemble(request, device, group, observer.decoding)
        except KeyboardInterrupt:
            raise Stopped(
                f"{request.folder}: stopped before its first step: nothing was trained and nothing was saved; "
                "start the same command again",
                stop.signum or signal.SIGINT,
            ) from None
        run.context.notes.extend(notes)
        stack.callback(run.context.train.close)
        if run.context.validator is not None:
            stack.callback(run.context.validator.loader.close)
        validator = run.context.validator
        for source in (run.student.teachers, validator.teachers if validator is not None else None):
            if source is not None:
                source.open()
        if group.is_main:
            _write_start(request, run)
        return fit(run, stop, observer)


def _write_start(request: RunRequest, run: Run) -> None:
    """Make the folder ready; only now that everything else is known to be in order is anything thrown away."""
    context, folder = run.context, run.context.folder
    if request.overwrite:
        context.notes.extend(left_alone(folder.empty()))
    if context.resumed_from is not None:
        validated = not run.state.validation_pending
        truncate_metrics(folder.metrics, run.state.global_step, validated=validated)
        if context.resumed_from == folder.previous:
            folder.replace_last_by_previous()
    split_json = request.split.file.model_dump_json(indent=2)
    folder.write_start(request.recipe.to_yaml(), split_json, context.device)
