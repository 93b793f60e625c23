"""Trains one run, from the request to the finished run folder."""

from __future__ import annotations

import contextlib
import signal
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mptctl.data.held_split import hold_manifest
from mptctl.errors import Stopped, UsageError
from mptctl.files import link_or_copy
from mptctl.machine.device import choose_device
from mptctl.machine.signals import stop_on_signals
from mptctl.models.lock import wait_until_free
from mptctl.models.metrics_log import truncate_metrics
from mptctl.models.ownership import refuse_own_inputs
from mptctl.models.run_folder import RunDir
from mptctl.recipe.own import own_parts
from mptctl.training.assemble import assemble
from mptctl.training.distributed import workers
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
        UsageError: another process writes the folder, it holds a run or foreign files, or it is a teacher's;
            or batch statistics of several workers are asked for on a CPU.
        StorageError: the folder cannot be made.
        MptctlError: any other error; see `assemble`, `Run.open` and `Trainer.fit`.
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
        if group.is_main:
            refuse_own_inputs(request.folder, request.teachers)
            stack.enter_context(RunDir(request.folder).locked(request.existing))
        stop = stack.enter_context(stop_on_signals())
        stack.callback(observer.closed)
        try:
            with stop.interrupts_at_once():
                request, notes = choose_threads(request, device)
                run = assemble(request, device, group, observer.progress)
                stack.callback(run.close)
                run.open()
        except KeyboardInterrupt:
            raise Stopped(
                f"{request.folder}: stopped before its first step: nothing was trained and nothing was "
                "saved; start the same command again",
                stop.signum or signal.SIGINT,
            ) from None
        run.notes.extend(notes)
        if group.is_main:
            _write_start(request, run)
        if anew:
            run.notes.append("ended before its first checkpoint; begins anew")
        with Trainer(run, stop, observer) as trainer:
            return trainer.fit()


def train_unfinished(folder: Path, make_request: Callable[[], RunRequest], observer: Observer) -> None:
    """Train a run unless it is finished, once no other process holds its folder.

    Args:
        folder: of the run.
        make_request: makes the request for the run.
        observer: of the run.

    Raises:
        Stopped: a signal came.
        Exception: as `train`.
    """
    wait_until_free(folder)
    if not RunDir(folder).is_finished():
        train(make_request(), observer)


def write_traceback(path: Path, error: Exception) -> None:
    """Write the traceback of an unexpected error to a file; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")


def _write_start(request: RunRequest, run: Run) -> None:
    """Prepare the folder, and write recipe, split and environment.

    A run that overwrites empties the folder first. A resumed run cuts its log back to the checkpoint first;
    if nothing is left to be done, nothing else is written.
    """
    folder, state = run.folder, run.state
    if request.overwrite:
        run.notes.extend(folder.remove_run_files())
    if state.resumed_from is not None:
        validated = not state.validation_pending
        truncate_metrics(folder.metrics, state.global_step, validated=validated)
        if state.resumed_from == folder.previous:
            # Otherwise the next save, which renames last.pt, would replace the good one by the damaged one.
            link_or_copy(folder.previous, folder.last)
        if state.global_step >= run.total_steps and validated:
            return  # the environment that computed the run stays written down
    split_json = request.split.file.model_dump_json(indent=2)
    folder.write_start(request.recipe.to_yaml(), split_json, run.device, own_parts(request.recipe))
    hold_manifest(request.split, folder.path)
