"""The answers of a run to the validation and the test part: read from its folder, or asked of its model."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mptctl.data.held_split import find_split, relocate
from mptctl.data.split import Split, load_split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.errors import CheckpointError, StorageError
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.pairing.scores import score
from mptctl.names import Part, Session
from mptctl.studies.answers_file import (
    PARTS,
    SCHEMA_VERSION,
    AnswersHead,
    KeptCalibration,
    PartAnswers,
    RunAnswers,
    no_answers,
    read_answers,
    round_answers,
    write_answers,
)
from mptctl.studies.run_folders import find_by_digest, kept_answers
from mptctl.studies.training_cost import RunWork, steps_of

if TYPE_CHECKING:
    from mptctl.evaluation.reading.predictions import Predictions
    from mptctl.models.checkpoint import Checkpoint


def run_answers(folder: Path, session: Session = Session(), *, split: Split | None = None) -> RunAnswers:
    """The answers of a run: those in its folder if they are its checkpoint's, else new ones, then kept there.
    A folder without a checkpoint needs ``answers.npz`` and ``recipe.yaml``, and neither pictures nor a split.

    Args:
        folder: of the run.
        session: where the model computes, and who is told how far it is.
        split: whose pictures are asked; default: the one beside the run.

    Raises:
        CheckpointError: no run there, a damaged one, or one of another split.
        UsageError: there is no split, or no such device.
        DataError: pictures that are gone, or a split without a test part.
        NonFiniteError: logits that are NaN.
    """
    best = folder / "best.pt"
    if not best.is_file():
        return kept_answers(folder)
    from mptctl.models.checkpoint import load_checkpoint

    checkpoint, kept = load_checkpoint(best), read_answers(folder)
    wanted = None if split is None else split.fingerprint
    if (
        kept is not None
        and kept.head.digest == checkpoint.digest
        and wanted in (None, kept.head.split_fingerprint)
    ):
        return _counted_again(kept, checkpoint)
    own = split_above(folder)
    if split is None:
        split = own or find_split(folder.parent, [folder])
    trained_on = checkpoint.meta.split_fingerprint
    if trained_on not in (None, split.fingerprint):
        raise CheckpointError(
            f"{best}: was trained on the split {str(trained_on)[:12]}, {split.run_root} has "
            f"{split.fingerprint[:12]}; compare runs of one split"
        )
    answers = _ask(folder, checkpoint, relocate(split, session.data_root), session)
    if own is not None and own.fingerprint == split.fingerprint:
        _keep_if_it_can_be_written(answers)
    return answers


def _counted_again(kept: RunAnswers, checkpoint: Checkpoint) -> RunAnswers:
    """Counts the work anew where the run went on since or a teacher was not there."""
    work, batch = kept.head.work, kept.recipe.optim.batch_size
    steps, _ = steps_of(kept.folder)
    if None not in work.teachers.values() and work.pictures == (None if steps is None else steps * batch):
        return kept
    counted = _count_work(kept.folder, checkpoint)
    if counted == work:
        return kept
    answers = replace(kept, head=kept.head.model_copy(update={"work": counted}))
    _keep_if_it_can_be_written(answers)
    return answers


def _count_work(folder: Path, checkpoint: Checkpoint) -> RunWork:
    from mptctl.studies.cost_of_run import count_run

    teachers = checkpoint.meta.teachers
    return count_run(
        folder, checkpoint.meta, {name: find_by_digest(digest, folder) for name, digest in teachers.items()}
    )


def _keep_if_it_can_be_written(answers: RunAnswers) -> None:
    with suppress(StorageError):  # what cannot be kept is asked again the next time
        write_answers(answers)


def split_above(folder: Path) -> Split | None:
    """The split of the run root that a run lies in, or its ensemble; None where there is none."""
    for root in list(folder.resolve().parents)[:2]:
        if (root / SPLIT_NAME).is_file() and any(root.glob("manifest*.npz")):
            return load_split(root)
    return None


def _ask(folder: Path, checkpoint: Checkpoint, split: Split, session: Session) -> RunAnswers:
    """Answers of a checkpoint on the validation and the test part."""
    from mptctl.inference.predict import predict

    names, old = split.classes.names, frozenset(split.classes.old)
    asked = {
        part: predict({"run": checkpoint}, split, session, part=part)["run"]
        for part in PARTS
        if part == "test" or len(split.indices(part))
    }

    def answers(part: Part) -> PartAnswers:
        if part not in asked:
            return no_answers()
        rows, pairing = split.indices(part), pair({"run": asked[part]})
        scores = score(pairing, "run", old)
        assert scores is not None  # a checkpoint has logits
        back = np.argsort(pairing.rows["run"])  # from the order of the ids to that of the manifest
        place = {name: i for i, name in enumerate(names)}
        column = np.array([place[label] for label in pairing.vocabulary], dtype=np.int64)
        took_new = column[pairing.answers["run"]] >= len(old)
        return round_answers(
            index=rows,
            label=column[pairing.truth][back],
            old_answer=column[scores.old_answer][back],
            new_answer=column[scores.new_answer][back],
            old_logit=scores.old_logit[back],
            new_logit=scores.new_logit[back],
            took_new=took_new[back],
            confidence=scores.confidence[back],
            classes=len(names),
        )

    meta = checkpoint.meta
    head = AnswersHead(
        schema_version=SCHEMA_VERSION,
        digest=checkpoint.digest,
        teachers=meta.teachers,
        class_names=names,
        num_old=split.classes.num_old,
        num_known=len(meta.class_names),
        request=split.file.request,
        split_fingerprint=split.fingerprint,
        work=_count_work(folder, checkpoint),
        calibration=_calibration(asked["test"], asked.get("val")),
    )
    return RunAnswers(folder, meta.recipe, head, answers("val"), answers("test"))


def _calibration(test: Predictions, validation: Predictions | None) -> KeptCalibration:
    from mptctl.evaluation.calibration.report import measure_calibration

    report = measure_calibration(test, validation)
    return KeptCalibration(
        n=report.n,
        accuracy=report.accuracy,
        ece=report.ece,
        aece=report.aece,
        temperature=report.temperature,
        scaled_ece=None if report.scaled is None else report.scaled.ece,
        scaled_aece=None if report.scaled is None else report.scaled.aece,
    )
