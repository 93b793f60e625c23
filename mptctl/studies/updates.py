"""Find the updates in folders: the runs to compare, and the old model that each of them replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import CheckpointError, DataError
from mptctl.evaluation.flips import flip_rates
from mptctl.evaluation.paired_bootstrap import BiasAtError, CountedUpdate
from mptctl.evaluation.pairing.paired_answers import flip_counts
from mptctl.evaluation.rates import Counts, Rates
from mptctl.models.metrics_log import ends_as_finished
from mptctl.names import Part, Role, Session
from mptctl.studies.answers import run_answers, split_above
from mptctl.studies.answers_file import RunAnswers
from mptctl.studies.run_folders import find_by_digest, folders_in, identify, is_run_folder, runs_below
from mptctl.studies.training_cost import metrics_of

BoolArray = NDArray[np.bool_]
# Names of the parts in messages.
PART_NAMES: dict[Part, str] = {"train": "training", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class Update:
    """A run compared with the old model that it replaces, on one part of a split, perhaps shifted.

    Attributes:
        run, old: predictions of both on the same samples.
        bias: subtracted from the logits of the new classes; a negative one is added.
        part: whose samples are counted.
        rival: the run at whose validation error the bias was chosen, and is chosen again on each draw of the
            bootstrap; None where the bias was not chosen.
        least_bias: the smallest bias that could be chosen.
        is_reached: whether its validation error is at most that of the rival; else it is the lowest.
    """

    run: RunAnswers
    old: RunAnswers
    bias: float = 0.0
    part: Part = "test"
    rival: RunAnswers | None = None
    least_bias: float = 0.0
    is_reached: bool = True

    @property
    def replicate(self) -> tuple[str, int]:
        """Fingerprint of the split and seed of the run, by which runs of different methods are paired."""
        return self.run.head.split_fingerprint, self.run.recipe.runtime.seed

    @cached_property
    def old_right(self) -> BoolArray:
        """(N,) whether the old model is right on each sample of the part."""
        return self.old.part(self.part).right()

    @cached_property
    def right(self) -> BoolArray:
        """(N,) whether the update, shifted by its bias, is right on each sample of the part."""
        return self.run.part(self.part).right(self.bias)

    @cached_property
    def of_old(self) -> BoolArray:
        """(N,) whether each sample of the part is of an old class."""
        of_old: BoolArray = self.run.part(self.part).label < self.run.head.num_old
        return of_old

    @cached_property
    def counts(self) -> Counts:
        """The flip table, over samples of the old classes."""
        return flip_counts(self.old_right[self.of_old], self.right[self.of_old])

    @property
    def flips(self) -> tuple[int, int]:
        """Negative flips, and samples of the old classes."""
        return self.counts.negative_flips, self.counts.total

    @property
    def errors(self) -> tuple[int, int]:
        """Wrong predictions of the update, and samples of the part."""
        return int((~self.right).sum()), len(self.right)

    @property
    def old_error(self) -> float:
        """The error of the old model on samples of the old classes, a fraction."""
        return (self.counts.total - self.counts.old_right) / self.counts.total

    @cached_property
    def rates(self) -> Rates:
        """The rates of the flip table, with their intervals."""
        return flip_rates(self.counts, 0)

    @cached_property
    def counted(self) -> CountedUpdate:
        """The update as the paired bootstrap takes it, which chooses the bias again on each draw."""
        choice = None
        if self.rival is not None:
            rival_wrong = ~self.rival.val.right()
            choice = BiasAtError(self.run.val.wrong_by_bias, rival_wrong, self.least_bias)
        answers = self.run.part(self.part).wrong_by_bias
        return CountedUpdate(answers, self.of_old, self.old_right, self.part, self.bias, choice)


@dataclass(frozen=True)
class FoundUpdates:
    """The updates that folders hold.

    Attributes:
        updates: with their old models.
        notes: a sentence on each run that was left out.
        old_models: by the names of their runs, where the folders hold old models alone; else empty.
    """

    updates: list[Update]
    notes: list[str]
    old_models: dict[str, list[RunAnswers]]


def find_updates(
    folders: Sequence[Path],
    old: Path | None,
    session: Session = Session(),
    *,
    part: Part = "test",
) -> FoundUpdates:
    """Find every update in some folders, and the predictions of the update and its old model.

    In a folder of several runs, the updates are those that record an old model. A run folder that is named
    itself is taken as an update in any case, unless all runs are old models.

    Args:
        folders: a study's folder, run roots, or run folders.
        old: the old model of all updates, as a folder or as a name beside each run; None: what each run
            records.
        session: for runs whose predictions are not kept yet; see `run_answers`.
        part: whose samples are counted.

    Raises:
        CheckpointError: there is no run or no update, an old model is missing, or a run and its old model are
            of different splits.
        DataError: the part has no sample of an old class.
    """
    chosen = _chosen_runs(folders)
    if old is None and chosen and all(map(_is_finished_old_model, chosen)):
        old_models: dict[str, list[RunAnswers]] = {}
        for run in chosen:
            old_models.setdefault(run.name, []).append(run_answers(run, session))
        return FoundUpdates([], [], old_models)
    notes = _notes_on_begun_runs(chosen)
    updates: list[Update] = []
    for run, named in chosen.items():
        replaced = _replaced_model(run, old, notes, named=named)
        if replaced is None:
            continue
        answers = run_answers(run, session)
        if answers.head.num_known < len(answers.head.class_names):
            raise CheckpointError(
                f"{run}: knows {answers.head.num_known} of {len(answers.head.class_names)} classes, so that "
                "it is no update; name updates, and the model that they replace with --old"
            )
        updates.append(_pair_with_old(answers, replaced, part, session))
    if not updates:
        names = ", ".join(str(folder) for folder in folders)
        reasons = f" ({'; '.join(notes)})" if notes else ""
        raise CheckpointError(
            f"{names}: no update there{reasons}; train one with mptctl train-mpt or train-baseline"
        )
    return FoundUpdates(updates, notes, {})


def _chosen_runs(folders: Sequence[Path]) -> dict[Path, bool]:
    """The runs in some folders, resolved, each with whether its own folder is one of those given.

    Raises:
        CheckpointError: one of the folders holds no run.
    """
    chosen: dict[Path, bool] = {}
    for folder in folders:
        runs = runs_below(folder)
        if not runs:
            problem = "holds no finished run" if folder.is_dir() else "no such folder or study"
            raise CheckpointError(f"{folder}: {problem}; name a study, a run root or run folders")
        for run in runs:
            chosen[run.resolve()] = chosen.get(run.resolve(), False) or run == folder
    return chosen


def _notes_on_begun_runs(chosen: Mapping[Path, bool]) -> list[str]:
    """A sentence on each run that was begun beside chosen ones and has no checkpoint to compare yet."""
    searched = dict.fromkeys(run.parent for run, named in chosen.items() if not named)
    begun = [folder for parent in searched for folder in folders_in(parent) if not is_run_folder(folder)]
    states = {folder: describe_unfinished(folder) for folder in begun}
    return [f"{folder}: left out: {state}" for folder, state in states.items() if state is not None]


def _replaced_model(run: Path, old: Path | None, notes: list[str], *, named: bool) -> Path | None:
    """Find the folder of the old model that a run replaces; None where the run is left out.

    A run is left out where it is no update, is unfinished, or its old model is missing.

    Args:
        run: a run folder.
        old: as for `find_updates`.
        notes: a sentence is added on an update that is left out.
        named: the run folder was named itself.

    Raises:
        CheckpointError: a run that was named itself has no old model, or is the old model.
    """
    recorded = identify(run).teachers.get(Role.OLD)
    if not named and recorded is None:
        return None
    state = describe_unfinished(run)
    if state is not None:
        notes.append(f"{run}: left out: {state}")
        return None
    replaced = _find_old_model(run, recorded, old)
    if replaced is None:
        reason = _why_no_old_model(run, recorded)
        if named:
            raise CheckpointError(f"{run}: {reason}")
        notes.append(f"{run}: left out: {reason}")
    elif replaced.resolve() == run:
        if named:
            raise CheckpointError(f"{run}: is the old model itself; name updates of it")
        return None
    return replaced


def _is_finished_old_model(run: Path) -> bool:
    """Tells whether a run is a finished one of an old model."""
    return identify(run).is_old_model and describe_unfinished(run) is None


def _pair_with_old(run: RunAnswers, replaced: Path, part: Part, session: Session) -> Update:
    """Make an update of a run and the folder of its old model, whose predictions are read or computed.

    Raises:
        CheckpointError: the two are of different splits, or the old model knows neither the old classes nor
            all classes.
        DataError: the part has no sample of an old class.
    """
    # An imported old model is of no split; it predicts on the update's.
    split = split_above(run.folder) if (replaced / "best.pt").is_file() else None
    old = run_answers(replaced, session, split=split)
    if old.head.split_fingerprint != run.head.split_fingerprint:
        raise CheckpointError(
            f"{run.folder}: is of the split {run.head.split_fingerprint[:12]}, its old model {replaced} of "
            f"{old.head.split_fingerprint[:12]}; compare runs of one split"
        )
    if old.head.num_known not in (run.head.num_old, len(run.head.class_names)):
        raise CheckpointError(
            f"{replaced}: knows {old.head.num_known} classes, but {run.folder} has {run.head.num_old} old "
            "ones; name the model that it replaces with --old"
        )
    update = Update(run, old, part=part)
    if not update.of_old.any():
        raise DataError(
            f"{run.folder}: no {PART_NAMES[part]} sample is of an old class; add some to the data and run "
            "split again"
        )
    return update


def describe_unfinished(run: Path) -> str | None:
    """Say that a run is not finished, and its epoch; None for one that is finished, or has no metrics."""
    lines = metrics_of(run)
    if not lines or ends_as_finished(lines):
        return None
    return f"its run is not finished (epoch {lines[-1].epoch})"


def _find_old_model(run: Path, recorded: str | None, old: Path | None) -> Path | None:
    """Find the folder of the old model of a run: ``old`` if given, else the run of the recorded digest.

    None where no digest is recorded, or no run beside this one has it.

    Raises:
        CheckpointError: ``old`` is neither a run folder nor the name of a run beside this one.
    """
    if old is None:
        return None if recorded is None else find_by_digest(recorded, run)
    for folder in (old, run.parent / old):
        if is_run_folder(folder):
            return folder
    raise CheckpointError(
        f"--old {old}: no run of that name beside {run}, and no such folder; train-old makes one"
    )


def _why_no_old_model(run: Path, recorded: str | None) -> str:
    """Say why the old model of a run was not found: none is recorded, or it is not beside the run."""
    if recorded is None:
        return "records no old model; name it with --old RUN"
    usual = run.parent / Role.OLD.value
    state = "is another one" if is_run_folder(usual) else "is not there"
    return (
        f"its old model ({recorded[:12]}) is missing in {run.parent} ({usual.name} {state}); "
        "name it with --old RUN"
    )
