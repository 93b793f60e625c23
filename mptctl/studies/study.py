"""Run a study: train its missing runs, as many at a time as fit; the same call goes on after a stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from mptctl.data.split import Split
from mptctl.errors import MptctlError, UsageError, some
from mptctl.machine.cluster import (
    MAX_RESTARTS,
    ray_cluster,
    refuse_if_silent,
    set_ray_environment,
    silence_stdout,
)
from mptctl.machine.device import choose_device
from mptctl.machine.facts import usable_cores
from mptctl.machine.signals import StopRequest, stopped_with
from mptctl.models.lock import is_free, locked, refuse_unusable
from mptctl.models.ownership import FolderKind
from mptctl.names import Progress, tell_nobody
from mptctl.studies.compare import compare_runs
from mptctl.studies.study_estimate import refuse_untrainable_runs, sizes_of_split
from mptctl.studies.study_file import Study
from mptctl.studies.study_plan import PlannedRun, on_machine, plan_study
from mptctl.studies.study_report import Board, StudyReport, StudyRow
from mptctl.studies.study_state import find_standings, make_splits
from mptctl.studies.tuning.record import Tuning, write_tuning
from mptctl.studies.tuning.trials import PlannedTrial, choose_tunings, plan_trials, with_tunings

if TYPE_CHECKING:
    from mptctl.studies.study_pool import WorkerPool

# Seconds between two looks at the runs.
LOOK_EVERY = 0.5

# Seconds after the death of a worker's process in which the signal that stops the study as well may arrive.
# A run that went on in another process before the signal came would be trained against the user's will.
SIGNAL_FOLLOWS_WITHIN = 0.5
# The kind of a run root for its lock; the runs in it are checked one by one.
RUN_ROOT = FolderKind("study")


@dataclass(frozen=True)
class StudyRequest:
    """A study to run, and how.

    Attributes:
        study: the content of the study.
        seeds: of the study, those to run.
        run_root: the folder of all splits and runs.
        data_root: folder of the data; None: the study's own.
        ray_address: of a Ray cluster that shares the run root; None for this machine alone.
        parallel: most runs at once; None: one a GPU, or one a core where there is none.
    """

    study: Study
    seeds: tuple[int, ...]
    run_root: Path
    data_root: Path | None = None
    ray_address: str | None = None
    parallel: int | None = None


def run_study(
    request: StudyRequest,
    on_update: Callable[[Board], None],
    log: Callable[[str], None],
    progress: Progress = tell_nobody,
) -> StudyReport:
    """Train the missing runs of a study, and compare the finished ones.

    A run that fails does not raise an error; see `refuse_if_failed`.

    Args:
        request: the study.
        on_update: called with the board every `LOOK_EVERY` seconds, and whenever a run begins or ends.
        log: called with lines of progress.
        progress: shows how many files are checked while a split is made.

    Raises:
        UsageError, NonFiniteError: another study writes into the run root, or a run could not be trained.
        CheckpointError: an existing run differs from the planned one, or its teacher is missing.
        StorageError: the run root cannot be written.
        Stopped: a signal came; all runs have saved.
        MptctlError: a split cannot be made.
    """
    started = time.monotonic()
    root = request.run_root
    refuse_unusable_root(root)
    plan_seeds(request)  # refuses seeds without a run before a split is made
    refuse_if_silent(request.ray_address)
    stopped = f"{root}: stopped; what is done is kept; go on with the same command"
    with locked(root, RUN_ROOT, "keep"), stopped_with(stopped) as stop:
        request, tunings = _tune(request, on_update, log, progress, stop)
        splits = make_splits(request.study, root, request.seeds, request.data_root, progress)
        runs = plan_seeds(request)
        standing = find_standings(runs, splits)
        _refuse_untrainable_on(runs, splits)
        board = Board(runs, splits, standing, on_update)
        _train(request, board, log, stop)
        done = board.runs_of("done")
        for run in done:
            if run.name in tunings:
                write_tuning(board.folder(run), tunings[run.name])
        updates = [board.folder(run) for run in done if run.is_update]
        # A study without updates compares its old models.
        compared = updates if request.study.file.updates else [board.folder(run) for run in done]
        comparison = compare_runs(compared) if compared else None
    return StudyReport(
        study=request.study.name,
        run_root=str(root),
        seeds=list(request.seeds),
        runs=board.rows(),
        comparison=comparison,
        seconds=round(time.monotonic() - started, 1),
    )


def _tune(
    request: StudyRequest,
    on_update: Callable[[Board], None],
    log: Callable[[str], None],
    progress: Progress,
    stop: StopRequest,
) -> tuple[StudyRequest, dict[str, Tuning]]:
    """Train the trials of tuned rows; return the study with what was chosen, and the choices by row.

    Raises:
        MptctlError: a trial failed; or as `run_study`.
    """
    seed = tuning_seed(request)
    trials = plan_trials(request.study, seed)
    if not trials:
        return request, {}
    first = replace(request, seeds=(seed,))
    splits = make_splits(first.study, first.run_root, first.seeds, first.data_root, progress)
    runs = plan_with_trials(first, trials)
    _refuse_untrainable_on(runs, splits)
    board = Board(runs, splits, find_standings(runs, splits), on_update)
    _train(request, board, log, stop)
    refuse_if_failed(request.study.name, board.rows())
    tunings = choose_tunings(request.study, trials, request.run_root)
    return replace(request, study=with_tunings(request.study, tunings)), tunings


def tuning_seed(request: StudyRequest) -> int:
    """The seed on which rows are tuned: the first of the study, or the one of a study in one folder."""
    return request.seeds[0] if request.study.flat else request.study.file.seeds[0]


def plan_with_trials(request: StudyRequest, trials: Sequence[PlannedTrial]) -> list[PlannedRun]:
    """The trials of a study, after the runs that they learn from."""
    seeds = {trial.run.seed for trial in trials}  # one, or none without trials
    planned = plan_study(request.study, list(seeds))
    return [*(run for run in planned if not run.is_update), *(trial.run for trial in trials)]


def refuse_unusable_root(root: Path) -> None:
    """Refuse a run root that a study could not write into.

    Raises:
        UsageError: another study writes into the run root, or the run root is a link.
        StorageError: the run root is no folder.
    """
    if not is_free(root):
        raise UsageError(f"{root}: another study is writing into it; wait for it, or use another --run-root")
    refuse_unusable(root, RUN_ROOT, "keep")


def _refuse_untrainable_on(runs: Sequence[PlannedRun], splits: Mapping[str, Split]) -> None:
    """Refuse runs that could not be trained on their splits, which are given by their folders."""
    sizes = {folder: sizes_of_split(split) for folder, split in splits.items()}
    refuse_untrainable_runs(runs, sizes, choose_device(runs[0].recipe.runtime.device))


def plan_seeds(request: StudyRequest) -> list[PlannedRun]:
    """Plan the runs of the seeds that are asked for, each after its teachers; UsageError if there is none."""
    runs = plan_study(request.study, request.seeds)
    if not runs:
        seeds = ", ".join(map(str, request.seeds))
        raise UsageError(
            f"study {request.study.name}: has no run of seed {seeds}: its old models have other seeds; name "
            "some of theirs with --seeds"
        )
    return runs


def refuse_if_failed(study: str, rows: Sequence[StudyRow]) -> None:
    """Raise an error if runs of a study, given by its name, failed.

    Raises:
        MptctlError: names the failed runs, and those that were not trained since a teacher failed.
    """
    failed = [f"{row.seed}/{row.run} ({row.error})" for row in rows if row.status == "failed"]
    if not failed:
        return
    blocked = [f"{row.seed}/{row.run}" for row in rows if row.status == "blocked"]
    wanting = f"; not trained for want of them: {some(blocked)}" if blocked else ""
    raise MptctlError(
        f"study {study}: {len(failed)} of {len(rows)} runs failed: {some(failed, separator='; ')}{wanting}; "
        "mend what is wrong and start the same command again"
    )


def _train(request: StudyRequest, board: Board, log: Callable[[str], None], stop: StopRequest) -> None:
    """Train the waiting runs of a board on Ray, and wait for all.

    On Ctrl-C or a signal, every run saves before KeyboardInterrupt is raised.
    """
    waiting = board.runs_of("waiting")
    if not waiting:
        return
    gpus_here = gpus_for(choose_device(waiting[0].recipe.runtime.device))
    joins_cluster = request.ray_address is not None
    workers, cpus, gpus = shares(
        request.parallel, usable_cores(), gpus_here, len(waiting), cluster=joins_cluster
    )
    cores = None if joins_cluster else workers * cpus
    set_ray_environment(request.ray_address)
    with silence_stdout(), ray_cluster(request.ray_address, cpus, gpus, stop, cores):
        # Imported here, because Ray reads its settings when it is imported.
        import ray

        from mptctl.studies.study_pool import WorkerPool

        if joins_cluster and request.parallel is None:
            resources = ray.cluster_resources()
            fitting = resources["GPU"] // gpus if gpus else resources["CPU"] // cpus
            workers = min(len(waiting), int(fitting))
        pool = WorkerPool(request.run_root, workers, cpus, gpus)
        device = "cuda" if gpus else "cpu"
        try:
            _drive(pool, board, lambda run: on_machine(run, cpus, device))
        except KeyboardInterrupt:
            log("stopping: every run saves where it is")
            pool.stop()
            raise


def _drive(pool: WorkerPool, board: Board, settle: Callable[[PlannedRun], PlannedRun]) -> None:
    """Give runs to workers until none is left that could be trained, and keep the board up to date.

    Args:
        pool: of the workers.
        board: of the runs.
        settle: sets what the machine decides of a run; see `on_machine`.
    """
    while True:
        # Runs whose teachers are done, until no worker or no such run is left.
        while pool.has_free_slot and (run := board.next_run()) is not None:
            board.mark_running(run)
            pool.start(settle(run))
        if pool.is_idle:
            return
        for run, outcome in pool.finished(LOOK_EVERY):
            if outcome.status == "done":
                board.mark_done(run)
            elif outcome.status == "died":
                time.sleep(SIGNAL_FOLLOWS_WITHIN)
                board.restart(run, outcome.error, MAX_RESTARTS)
            else:
                board.mark_failed(run, outcome.error)
        board.read_progress()


def gpus_for(device: torch.device) -> int:
    """The number of this machine's GPUs that runs on a device may take; 0 for the CPU."""
    return torch.cuda.device_count() if device.type == "cuda" else 0


class Shares(NamedTuple):
    """The workers on this machine, and the share of it that each has.

    Attributes:
        workers: their number.
        cpus: cores of each.
        gpus: GPUs of each; a fraction where they share one.
    """

    workers: int
    cpus: int
    gpus: float


def shares(parallel: int | None, cores: int, gpus: int, runs: int, *, cluster: bool) -> Shares:
    """Divide this machine among workers.

    On a cluster each worker has a GPU of its own. The cores of workers without GPUs do not depend on how many
    runs are left, since the last bits of a run change with its threads.

    Args:
        parallel: most workers; None: one a GPU, or one a core where there is none.
        cores: of this machine.
        gpus: of this machine, to be shared; 0: runs compute on the CPU.
        runs: number of runs to train.
        cluster: the workers are on a cluster of machines like this one.
    """
    workers = min(parallel or gpus or cores, runs)
    if gpus and cluster:
        return Shares(workers, max(1, cores // gpus), 1.0)
    if gpus:
        return Shares(workers, max(1, cores // workers), min(1.0, gpus / workers))
    if parallel is None or cluster:
        return Shares(workers, 1, 0.0)
    return Shares(workers, max(1, cores // parallel), 0.0)
