"""Trains one run, from the request to the finished run folder."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import replace

import torch

from mptctl.data.held_split import hold_manifest
from mptctl.errors import Stopped, UsageError
from mptctl.machine.device import choose_device
from mptctl.machine.signals import StopRequest, stop_on_signals
from mptctl.models.metrics_log import truncate_metrics
from mptctl.models.ownership import note_left_files, refuse_own_inputs
from mptctl.models.run_folder import RunDir
from mptctl.training.assemble import assemble
from mptctl.training.distributed import ProcessGroup, workers
from mptctl.training.fit import Trainer
from mptctl.training.observer import FitResult, Observer
from mptctl.training.request import RunRequest
from mptctl.training.resume import was_never_saved
from mptctl.training.run import Run
from mptctl.training.torch_settings import choose_threads, torch_settings


def train(request: RunRequest, observer: Observer) -> FitResult:
    """Train a run to its end, and return its result.

    A run to resume that never saved a checkpoint begins anew.

    Raises:
        Stopped: a signal came; after the first step the run is saved and can be resumed.
        MptctlError: any other error; see `hold_folder`, `assemble` and `Trainer.step`.
    """
    device = choose_device(request.recipe.runtime.device)
    # Looked up before the workers meet and one of them writes to the folder, so that all see the same.
    anew = request.resume and was_never_saved(RunDir(request.folder))
    if anew:
        request = replace(request, resume=False, overwrite=True)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch_settings(request.recipe, device))
        group = stack.enter_context(workers(device))
        if request.recipe.runtime.sync_batchnorm and group.size > 1 and device.type == "cpu":
            raise UsageError(
                "runtime.sync_batchnorm: is for GPUs; on CPUs leave it out and set "
                "model.freeze=[norm-statistics], or train with one worker"
            )
        hold_folder(request, group, stack)
        stop = stack.enter_context(stop_on_signals())
        run = begin_run(request, observer, device, group, stop, stack)
        if anew:
            run.context.notes.append("ended before its first checkpoint; begins anew")
        with Trainer(run, stop, observer) as trainer:
            while not trainer.done:
                trainer.step()
            return trainer.finish()


def hold_folder(request: RunRequest, group: ProcessGroup, stack: contextlib.ExitStack) -> None:
    """Lock the folder of a run for this process, on the main worker, until the stack is left.

    Raises:
        UsageError: another process writes the folder, it holds a run or foreign files, or it is a teacher's.
        StorageError: the folder cannot be made.
    """
    if group.is_main:
        refuse_own_inputs(request.folder, request.teachers)
        stack.enter_context(RunDir(request.folder).locked(request.existing))


def begin_run(
    request: RunRequest,
    observer: Observer,
    device: torch.device,
    group: ProcessGroup,
    stop: StopRequest,
    stack: contextlib.ExitStack,
) -> Run:
    """Choose threads, assemble a run, open its teachers, and write the first files of its folder.

    Args:
        request: the run; `hold_folder` has locked its folder.
        observer: told of decoded pictures; told `closed` when the stack is left.
        device: where the run computes.
        group: the workers of the run.
        stop: set by a signal.
        stack: closes the loaders at its end.

    Raises:
        MptctlError: see `assemble`.
        Stopped: a signal came; nothing is saved.
    """
    stack.callback(observer.closed)
    try:
        with stop.interrupts_at_once():
            request, notes = choose_threads(request, device)
            run = assemble(request, device, group, observer.progress)
    except KeyboardInterrupt:
        raise Stopped(
            f"{request.folder}: stopped before its first step: nothing was trained and nothing was saved; "
            "start the same command again",
            stop.signum or signal.SIGINT,
        ) from None
    run.context.notes.extend(notes)
    stack.callback(run.context.train.close)
    if run.student.teachers is not None:
        run.student.teachers.open()
    validator = run.context.validator
    if validator is not None:
        stack.callback(validator.loader.close)
        if validator.teachers is not None:
            validator.teachers.open()
    if group.is_main:
        _write_start(request, run)
    return run


def _write_start(request: RunRequest, run: Run) -> None:
    """Prepare the folder, and write recipe, split and environment.

    A run that overwrites empties the folder first. A resumed run cuts its log back to the checkpoint first;
    if nothing is left to be done, nothing else is written.
    """
    context, folder = run.context, run.context.folder
    if request.overwrite:
        context.notes.extend(note_left_files(folder.remove_run_files()))
    if context.resumed_from is not None:
        validated = not run.state.validation_pending
        truncate_metrics(folder.metrics, run.state.global_step, validated=validated)
        if context.resumed_from == folder.previous:
            folder.replace_last_by_previous()
        if run.state.global_step >= context.total_steps and validated:
            return  # the environment that computed the run stays written down
    split_json = request.split.file.model_dump_json(indent=2)
    folder.write_start(request.recipe.to_yaml(), split_json, context.device)
    hold_manifest(request.split, folder.path)
