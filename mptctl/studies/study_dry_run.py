"""A dry run of a study: its runs, how far each is, and the time that the rest takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from pydantic import Field

from mptctl.data.sources import count_source
from mptctl.data.split import Split
from mptctl.files import Model, scratch_folder
from mptctl.machine.device import choose_device
from mptctl.machine.facts import usable_cores
from mptctl.models.run_folder import RunDir
from mptctl.studies.study import (
    StudyRequest,
    gpus_for,
    plan_seeds,
    plan_with_trials,
    refuse_unusable_root,
    shares,
    tuning_seed,
)
from mptctl.studies.study_estimate import (
    Sizes,
    estimate_planned,
    refuse_untrainable_runs,
    sizes_of_source,
    sizes_of_split,
)
from mptctl.studies.study_plan import PlannedRun, on_machine
from mptctl.studies.study_report import last_line
from mptctl.studies.study_state import Standing, existing_split, find_standings, make_splits
from mptctl.studies.tuning.trials import choose_tunings, plan_trials, with_tunings
from mptctl.training.estimate import Estimate

# The estimate for a run without steps left.
NOTHING_LEFT = Estimate(step_seconds=0.0, seconds=0.0)


class PlannedRow(Model):
    """A run of the study."""

    seed: int = Field(description="of the study")
    run: str = Field(description="its folder below that of the seed")
    method: str = Field(description="name of the method")
    teachers: list[str] = Field(description="runs that it learns from, or is compared with in validation")
    standing: Standing = Field(
        description="missing; begun: it goes on; unanswered: trained, its answers are missing; done: left "
        "alone"
    )
    steps: int = Field(description="optimizer steps that are left")
    step_seconds: float = Field(description="of an optimizer step, teachers included; 0 where none is left")
    seconds: float = Field(description="of these steps")


class StudyDryRun(Model):
    """The object that ``study --dry-run --json`` prints."""

    study: str = Field(description="name of the study")
    description: str = Field(description="content of its table")
    run_root: str = Field(description="folder of the seeds, each with its split and its runs")
    runs: list[PlannedRow] = Field(description="all runs, each after its teachers")
    device: str = Field(description="device: cpu or cuda")
    parallel: int = Field(description="processes at a time, on this machine")
    seconds: float = Field(description="of all steps that are left, over all runs")


def dry_run(request: StudyRequest) -> StudyDryRun:
    """Plan the runs of a study, and estimate the time that those not yet done will take.

    All that the study needs is checked as `run_study` does, but for its pictures; nothing is written.

    Raises:
        MptctlError: the study could not start; see `run_study`.
    """
    root = request.run_root
    refuse_unusable_root(root)
    trials = plan_trials(request.study, tuning_seed(request))
    tuning = plan_with_trials(request, trials)
    seeds = tuple(dict.fromkeys((*(run.seed for run in tuning), *request.seeds)))
    splits = {}
    for seed in seeds:
        folder = request.study.folder_of(seed)
        split = existing_split(request.study.file.split, root / folder, seed, request.data_root)
        if split is not None:
            splits[folder] = split
    standing = find_standings(tuning, splits)
    if trials and all(state in ("done", "unanswered") for state in standing.values()):
        study = with_tunings(request.study, choose_tunings(request.study, trials, root))
        request = replace(request, study=study)
    later = plan_seeds(request)
    standing |= find_standings(later, splits)
    runs = list({run.key: run for run in (*tuning, *later)}.values())
    runs_left = sum(standing[run.key] != "done" for run in runs)
    device = choose_device(runs[0].recipe.runtime.device)
    joins_cluster = request.ray_address is not None
    share = shares(
        request.parallel, usable_cores(), gpus_for(device), max(1, runs_left), cluster=joins_cluster
    )
    sizes = _find_sizes(replace(request, seeds=seeds), splits)
    refuse_untrainable_runs(runs, sizes, device)
    runs = [on_machine(run, share.cpus, device.type) for run in runs]
    rows = _build_rows(runs, standing, sizes, root, device)
    return StudyDryRun(
        study=request.study.name,
        description=request.study.file.description,
        run_root=str(root),
        runs=rows,
        device=device.type,
        parallel=share.workers,
        seconds=round(sum(row.seconds for row in rows), 3),
    )


def _find_sizes(request: StudyRequest, splits: dict[str, Split]) -> dict[str, Sizes]:
    """The sizes of the split of each folder.

    Those of a missing split follow from its source; where the source does not tell them, the splits of one
    seed are made in a scratch folder and counted.
    """
    content = request.study.file.split
    known = {folder: sizes_of_split(split) for folder, split in splits.items()}
    if len(known) == len(request.seeds):
        return known
    found = content.find(request.data_root)
    needs_split = (found.table_or_shards, content.old_classes, content.test_fraction)
    if any(setting is not None for setting in needs_split):
        with scratch_folder() as scratch:
            seed = request.seeds[0]
            made = make_splits(request.study, scratch, [seed], request.data_root)
            counted = sizes_of_split(made[request.study.folder_of(seed)])
    else:
        counted = sizes_of_source(content, count_source(found.source, found.root))
    return {request.study.folder_of(seed): counted for seed in request.seeds} | known


def _build_rows(
    runs: list[PlannedRun],
    standing: dict[str, Standing],
    sizes: dict[str, Sizes],
    root: Path,
    device: torch.device,
) -> list[PlannedRow]:
    """The rows of all runs, with the steps left and estimates of their time.

    Args:
        runs: all runs of the study.
        standing: of each run, by its key.
        sizes: of the splits, by their folders.
        root: the run root.
        device: where runs compute.
    """
    planned = {run.key: run for run in runs}
    rows = []
    for run in runs:
        state = standing[run.key]
        split = sizes[run.split_folder]
        steps = 0 if state in ("done", "unanswered") else split.steps(run)
        if state == "begun":
            line = last_line(RunDir(root / run.key).metrics)
            if line is not None:
                steps = max(0, steps - line.step)
        estimate = estimate_planned(run, planned, split, steps, device) if steps else NOTHING_LEFT
        rows.append(
            PlannedRow(
                seed=run.seed,
                run=run.name,
                method=run.method,
                teachers=list(run.teachers),
                standing=state,
                steps=steps,
                step_seconds=estimate.step_seconds,
                seconds=estimate.seconds,
            )
        )
    return rows
