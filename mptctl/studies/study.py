"""The study itself: trains what is missing, as many runs at a time as fit, and goes on if interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from mptctl.data.split import Split
from mptctl.errors import MptctlError, StorageError, UsageError, some
from mptctl.machine.cluster import MAX_RESTARTS, quiet, ray_cluster, silence_stdout
from mptctl.machine.device import choose_device
from mptctl.machine.facts import usable_cores
from mptctl.machine.signals import StopRequest, stopped_with
from mptctl.models.lock import is_free, locked, refuse_unusable
from mptctl.models.ownership import Kind
from mptctl.names import Progress, tell_nobody
from mptctl.studies.chain import report_chains
from mptctl.studies.compare import compare_runs
from mptctl.studies.study_estimate import disk_bytes, free_bytes, sizes_of_split
from mptctl.studies.study_file import Study
from mptctl.studies.study_plan import PlannedRun, on_machine, plan_study, refuse_runs_too_short
from mptctl.studies.study_report import Board, StudyReport
from mptctl.studies.study_results import keep_results, refuse_kept_of_another, writable_results
from mptctl.studies.study_state import Standing, make_splits, standings

if TYPE_CHECKING:
    from mptctl.studies.study_pool import WorkerPool

# Seconds between two looks at the runs.
LOOK_EVERY = 0.5
# The contents of a run root beside its lock are looked at run by run, not as a whole.
RUN_ROOT = Kind("study")


@dataclass(frozen=True)
class StudyRequest:
    """A study that somebody asked for.

    Attributes:
        study: what is trained.
        seeds: which seeds of it.
        run_root: where everything is written.
        data_root: folder of the data; None: the study's own.
        ray_address: of a Ray cluster that shares the run root; None for this machine alone.
        parallel: most runs at once; None: one a GPU, or one a core where there is none.
        lockstep: most runs that one process trains step by step in turn.
        results: where recipe, metrics and answers of each finished run are copied to; None: nowhere.
        flat: split and runs of its one seed lie in the run root itself.
    """

    study: Study
    seeds: tuple[int, ...]
    run_root: Path
    data_root: Path | None = None
    ray_address: str | None = None
    parallel: int | None = None
    lockstep: int = 1
    results: Path | None = None
    flat: bool = False


def run_study(
    request: StudyRequest,
    on_update: Callable[[Board], None],
    log: Callable[[str], None],
    progress: Progress = tell_nobody,
) -> StudyReport:
    """Train what is missing of a study.

    Args:
        request: what to do.
        on_update: called with the board now and then, and whenever a run begins or ends.
        log: called with lines of progress.
        progress: told how many files are checked while a split is made.

    Raises:
        UsageError: another study writes into the run root, or a run is too short for its method.
        CheckpointError: a run that is there differs from the planned one, or its teacher is missing.
        StorageError: the run root cannot be written, or the disk is too small.
        Stopped: a signal asked for it; all runs have saved.
        MptctlError: what keeps a split from being made.
    """
    started = time.monotonic()
    root = request.run_root
    refuse_unusable_root(root)
    stopped = f"{root}: stopped; what is done is kept; go on with the same command"
    with locked(root, RUN_ROOT, "keep"), stopped_with(stopped) as stop:
        runs, splits, standing = prepare(request, progress)
        board = Board(runs, splits, standing, on_update)
        _train(request, board, log, stop)
        done = board.runs_of("done")
        updates = [board.folder(run) for run in done if run.is_update]
        comparison = chain = None
        if request.study.file.generations is not None:
            chain = report_chains([*map(board.folder, done)]) if updates else None
        elif request.study.file.old_models is not None:
            of_old = [board.folder(run) for run in done if run.only_old_classes]
            comparison = compare_runs(updates or of_old, by="old") if done else None
        elif updates:
            comparison = compare_runs(updates)
    return StudyReport(
        study=request.study.name,
        run_root=str(root),
        seeds=list(request.seeds),
        runs=board.rows(),
        comparison=comparison,
        chain=chain,
        seconds=round(time.monotonic() - started, 1),
    )


def refuse_unusable_root(root: Path) -> None:
    """Refuse a run root that a study could not write into; changes nothing.

    Raises:
        UsageError: another study writes into it, or it is a link.
        StorageError: it is no folder.
    """
    if not is_free(root):
        raise UsageError(f"{root}: another study is writing into it; wait for it, or use another --run-root")
    refuse_unusable(root, RUN_ROOT, "keep")


def prepare(
    request: StudyRequest, progress: Progress = tell_nobody
) -> tuple[list[PlannedRun], dict[str, Split], dict[str, Standing]]:
    """Runs, splits, and where each run stands; finds what can be wrong before anything is trained."""
    results = request.results
    if results is not None:
        writable_results(results)
    splits = make_splits(
        request.study.file.splits,
        request.run_root,
        request.seeds,
        request.data_root,
        progress,
        flat=request.flat,
    )
    runs, standing = plan_runs(request, splits)
    if results is not None:
        for run in runs:
            folder = run.request(splits[run.place]).folder
            finished = folder if standing[run.key] in ("done", "unanswered") else None
            refuse_kept_of_another(request.study.name, run, finished, results)
    _refuse_small_disk(request.run_root, [run for run in runs if standing[run.key] == "missing"], splits)
    return runs, splits, standing


def plan_runs(
    request: StudyRequest, splits: Mapping[str, Split]
) -> tuple[list[PlannedRun], dict[str, Standing]]:
    """The runs of a study, and where each stands by its key.

    Args:
        request: what to do.
        splits: those that are there, by their places.

    Raises:
        UsageError: a run is too short for its method.
        CheckpointError: a run that is there is not the planned one.
    """
    runs = plan_study(request.study, request.seeds, flat=request.flat)
    for place, split in splits.items():
        refuse_runs_too_short([run for run in runs if run.place == place], split)
    return runs, standings(runs, splits)


def refuse_if_failed(report: StudyReport) -> None:
    """Raise where runs failed.

    Raises:
        MptctlError: names them, and what could not be trained for that reason.
    """
    if not report.failed:
        return
    failed = [f"{row.seed}/{row.run} ({row.error})" for row in report.failed]
    blocked = [f"{row.seed}/{row.run}" for row in report.runs if row.status == "blocked"]
    wanting = f"; not trained for want of them: {some(blocked)}" if blocked else ""
    raise MptctlError(
        f"study {report.study}: {len(failed)} of {len(report.runs)} runs failed: "
        f"{some(failed, separator='; ')}{wanting}; mend what is wrong and start the same command again"
    )


def _refuse_small_disk(root: Path, missing: Sequence[PlannedRun], splits: dict[str, Split]) -> None:
    needed = disk_bytes(missing, {place: sizes_of_split(split) for place, split in splits.items()})
    free = free_bytes(root)
    if needed > free:
        raise StorageError(
            f"{root}: the {len(missing)} runs that are missing take about {needed / 1e9:.1f} GB, and "
            f"{free / 1e9:.1f} GB are free; make room, ask for fewer --seeds, or use another --run-root"
        )


def _train(request: StudyRequest, board: Board, log: Callable[[str], None], stop: StopRequest) -> None:
    """Train what is left, and wait for it."""

    def keep(run: PlannedRun) -> None:
        if request.results is not None:
            for note in keep_results(request.study.name, run, board.folder(run), request.results):
                log(note)

    for run in board.runs_of("done"):
        keep(run)
    left = board.runs_of("waiting")
    if not left:
        return
    on_gpu = choose_device(left[0].recipe.runtime.device).type == "cuda"
    quiet(request.ray_address)
    with silence_stdout(), ExitStack() as stack:
        joins = request.ray_address is not None
        size, cpus, gpus = shares(request.parallel, on_gpu, len(left), cluster=joins)
        cores = size * cpus if request.ray_address is None else None
        stack.enter_context(ray_cluster(request.ray_address, cpus, gpus, stop, cores))
        # Here, because they import Ray, which reads its settings then.
        import ray

        from mptctl.studies.study_pool import WorkerPool

        if request.ray_address is not None and request.parallel is None:
            there = ray.cluster_resources()
            size = min(len(left), int(there["GPU"] // gpus if gpus else there["CPU"] // cpus))
        pool = WorkerPool(request.run_root, size, cpus, gpus)
        device = "cuda" if gpus else "cpu"
        try:
            _drive(pool, board, request.lockstep, lambda run: on_machine(run, cpus, device), keep)
        except KeyboardInterrupt:
            log("stopping: every run saves where it is")
            pool.stop()
            raise


def _drive(
    pool: WorkerPool,
    board: Board,
    lockstep: int,
    settled: Callable[[PlannedRun], PlannedRun],
    keep: Callable[[PlannedRun], None],
) -> None:
    """Give runs to workers until there is none that could still be trained."""
    while True:
        while pool.free_slots and (runs := board.next_runs(lockstep, pool.free_slots)):
            for run in runs:
                board.begins(run)
            pool.start(list(map(settled, runs)))
        if pool.is_idle:
            return
        for run, outcome in pool.finished(LOOK_EVERY):
            if isinstance(outcome, str):
                board.died(run, outcome, MAX_RESTARTS)
            elif outcome.status == "done":
                board.ends(run)
                keep(run)
            else:
                board.fails(run, outcome.error or "was stopped from outside; start the same command again")
        board.look()


def shares(parallel: int | None, on_gpu: bool, runs: int, *, cluster: bool = False) -> tuple[int, int, float]:
    """Workers on this machine, and the cores and the part of a GPU that each has.

    Args:
        parallel: most workers; None: one a GPU, or one a core where there is none.
        on_gpu: whether they compute on GPUs.
        runs: that there are to be trained.
        cluster: they are on a cluster of machines like this one.
    """
    cores = usable_cores()
    if not on_gpu:
        return *cpu_shares(parallel, cores, runs, cluster=cluster), 0.0
    return gpu_shares(parallel, torch.cuda.device_count(), cores, runs, cluster=cluster)


def cpu_shares(parallel: int | None, cores: int, runs: int, *, cluster: bool) -> tuple[int, int]:
    """Workers on a machine with so many cores and no GPU, and the cores that each has.

    These follow from what was asked for and not from how many runs are left: a run's last bits change with
    its threads.
    """
    alone = parallel is None or cluster
    return min(parallel or cores, runs), 1 if alone else max(1, cores // (parallel or cores))


def gpu_shares(
    parallel: int | None, gpus: int, cores: int, runs: int, *, cluster: bool
) -> tuple[int, int, float]:
    """The same for a machine with GPUs, which runs share only where there is no other machine."""
    size = min(parallel or gpus, runs)
    if cluster:
        return size, max(1, cores // gpus), 1.0
    return size, max(1, cores // size), min(1.0, gpus / size)
