"""From folders to updates: which runs are to be compared, and which old model each of them replaces."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import CheckpointError, DataError
from mptctl.evaluation.paired_bootstrap import BiasAtError, CountedUpdate
from mptctl.evaluation.pairing.paired_answers import flip_counts
from mptctl.evaluation.rates import Counts
from mptctl.methods.rows import ROWS
from mptctl.models.metrics_log import came_to_end
from mptctl.names import Part, Role, Session
from mptctl.studies.answers import run_answers, split_above
from mptctl.studies.answers_file import RunAnswers
from mptctl.studies.run_folders import find_by_digest, is_run_folder, recorded_teachers, runs_below
from mptctl.studies.training_cost import metrics_of

BoolArray = NDArray[np.bool_]
# Samples of a part, in words.
PART_NAMES: dict[Part, str] = {"train": "training", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class Update:
    """A run against the old model that it replaces, on one part of a split, perhaps with a bias taken off.

    Attributes:
        run, old: their answers, to the same samples.
        bias: taken off the logits of the new classes; below zero it is put on them.
        old_name: of the old model, where there are several to tell apart.
        part: on which they are compared.
        rival: run at whose validation error the bias was chosen, and is chosen again when samples are drawn
            again; None where the bias was not chosen.
        least_bias: smallest bias that could be chosen.
    """

    run: RunAnswers
    old: RunAnswers
    bias: float = 0.0
    old_name: str | None = None
    part: Part = "test"
    rival: RunAnswers | None = None
    least_bias: float = 0.0

    @property
    def replicate(self) -> tuple[str, int]:
        """Split and seed, which runs of several methods share when they are of one seed."""
        return self.run.head.split_fingerprint, self.run.recipe.runtime.seed

    @cached_property
    def old_right(self) -> BoolArray:
        """(N,) samples of the part that the old model gets right."""
        return self.old.part(self.part).right()

    @cached_property
    def right(self) -> BoolArray:
        """(N,) samples of the part that the update gets right."""
        return self.run.part(self.part).right(self.bias)

    @cached_property
    def of_old(self) -> BoolArray:
        """(N,) samples of the part that are of an old class."""
        of_old: BoolArray = self.run.part(self.part).label < self.run.head.num_old
        return of_old

    @cached_property
    def counts(self) -> Counts:
        """The flip table, over samples of the old classes."""
        return flip_counts(self.old_right[self.of_old], self.right[self.of_old])

    @cached_property
    def counted(self) -> CountedUpdate:
        """Answers, old model and the choice of the bias, as samples are drawn again."""
        choice = None
        if self.rival is not None:
            rival_wrong = ~self.rival.val.right()
            choice = BiasAtError(self.run.val.wrong_by_bias, rival_wrong, self.least_bias)
        answers = self.run.part(self.part).wrong_by_bias
        return CountedUpdate(answers, self.of_old, self.old_right, self.part, self.bias, choice)


@dataclass(frozen=True)
class Found:
    """The updates that folders hold, and sentences on runs that were left out.

    Attributes:
        old_models: with each of several, all that lie beside the updates or in the folders, by the names of
            their runs.
    """

    updates: list[Update]
    notes: list[str]
    old_models: dict[str, list[RunAnswers]]


def find_updates(
    folders: Sequence[Path],
    old: Path | None,
    session: Session = Session(),
    *,
    by_old: bool = False,
    part: Part = "test",
) -> Found:
    """Every update in some folders, with its answers and those of its old model.

    In a folder of several runs those are updates that record an old model; a run that is named itself always
    is one.

    Args:
        folders: a study's folder, run roots, or run folders.
        old: the old model of all of them, a folder, or a name beside each run; default: what each run
            records.
        session: for models that did not answer yet; see `run_answers`.
        by_old: there are several old models, and an update that learnt from none of them is held against
            each.
        part: on which they are compared.

    Raises:
        CheckpointError: no run or no update there, an old model that is not there, or runs of other splits
            than theirs.
        DataError: a part without a sample of an old class.
    """
    chosen = _chosen_runs(folders)
    notes: list[str] = []
    updates: list[Update] = []
    beside = _old_models(chosen, session) if by_old else {}
    for run, named in chosen.items():
        if run in beside.get(run.parent, {}):
            continue
        replaced = _replaced_model(run, old, notes, named=named)
        if replaced is None:
            continue
        answers = run_answers(run, session)
        if answers.head.num_known < len(answers.head.class_names):
            raise CheckpointError(
                f"{run}: knows {answers.head.num_known} of {len(answers.head.class_names)} classes, so that "
                "it is no update; name updates, and the model that they replace with --old"
            )
        if not by_old:
            updates.append(_against(answers, replaced, part, session))
            continue
        learns = Role.OLD in ROWS[answers.recipe.method.name].teachers
        several = [replaced] if learns else list(beside[run.parent])
        updates += [replace(_against(answers, each, part, session), old_name=each.name) for each in several]
    old_models: dict[str, list[RunAnswers]] = {}
    for models in beside.values():
        for folder, model in models.items():
            old_models.setdefault(folder.name, []).append(model)
    if not updates and not old_models:
        names = ", ".join(str(folder) for folder in folders)
        left = f" ({'; '.join(notes)})" if notes else ""
        raise CheckpointError(
            f"{names}: no update there{left}; train one with mptctl train-mpt or train-baseline"
        )
    return Found(updates, notes, old_models)


def _chosen_runs(folders: Sequence[Path]) -> dict[Path, bool]:
    """The runs in some folders, each with whether it was named itself."""
    chosen: dict[Path, bool] = {}
    for folder in folders:
        runs = runs_below(folder)
        if not runs:
            what = "holds no finished run" if folder.is_dir() else "no such folder or study"
            raise CheckpointError(f"{folder}: {what}; name a study, a run root or run folders")
        for run in runs:
            chosen[run.resolve()] = chosen.get(run.resolve(), False) or run == folder
    return chosen


def _replaced_model(run: Path, old: Path | None, notes: list[str], *, named: bool) -> Path | None:
    """The folder of the old model that a run replaces; None where the run is no update that can be compared.

    Args:
        run: a run folder.
        old: as for `find_updates`.
        notes: takes a sentence on an update that is left out.
        named: the run was named itself, so that it is refused rather than left out.
    """
    recorded = recorded_teachers(run).get(Role.OLD)
    if not named and recorded is None:
        return None
    state = unfinished(run)
    if state is not None:
        notes.append(f"{run}: left out: {state}")
        return None
    replaced = _old_of(run, recorded, old)
    if replaced is None:
        lost = _lost(run, recorded)
        if named:
            raise CheckpointError(f"{run}: {lost}")
        notes.append(f"{run}: left out: {lost}")
    elif replaced.resolve() == run:
        if named:
            raise CheckpointError(f"{run}: is the old model itself; name updates of it")
        return None
    return replaced


def _old_models(runs: Collection[Path], session: Session) -> dict[Path, dict[Path, RunAnswers]]:
    """Finished runs that know the old classes alone, by the run root that they lie in."""
    by_root: dict[Path, dict[Path, RunAnswers]] = {}
    for root in dict.fromkeys(run.parent for run in runs):
        models = by_root.setdefault(root, {})
        for run in runs_below(root):
            if recorded_teachers(run) or unfinished(run) is not None:
                continue
            answers = run_answers(run, session)
            if answers.head.num_known == answers.head.num_old:
                models[run] = answers
    return by_root


def _against(run: RunAnswers, replaced: Path, part: Part, session: Session) -> Update:
    """An update beside its old model, once both are known to have seen the same samples."""
    # An imported old model is of no split, and is asked on the update's.
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


def unfinished(run: Path) -> str | None:
    """Says how far a run came that is not finished; None for one that is, or that logged nothing."""
    lines = metrics_of(run)
    if not lines or came_to_end(lines):
        return None
    return f"its run is not finished (epoch {lines[-1].epoch})"


def _old_of(run: Path, recorded: str | None, old: Path | None) -> Path | None:
    """The folder of the old model of a run; None where it records none, or one that is not there any more."""
    if old is None:
        return None if recorded is None else find_by_digest(recorded, run)
    for folder in (old, run.parent / old):
        if is_run_folder(folder):
            return folder
    raise CheckpointError(
        f"--old {old}: no run of that name beside {run}, and no such folder; train-old makes one"
    )


def _lost(run: Path, recorded: str | None) -> str:
    """Says what is missing of a run without an old model beside it."""
    if recorded is None:
        return "records no old model; name it with --old RUN"
    usual = run.parent / Role.OLD.value
    state = "is another one" if is_run_folder(usual) else "is not there"
    return (
        f"its old model ({recorded[:12]}) is missing in {run.parent} ({usual.name} {state}); "
        "name it with --old RUN"
    )
