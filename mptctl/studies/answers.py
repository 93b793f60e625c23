"""The predictions of a run on the validation and the test part: read from its folder, or computed anew."""

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
from mptctl.studies.run_folders import kept_answers
from mptctl.studies.training_cost import count_steps

if TYPE_CHECKING:
    from mptctl.evaluation.reading.predictions import Predictions
    from mptctl.models.checkpoint import Checkpoint


def run_answers(folder: Path, session: Session = Session(), *, split: Split | None = None) -> RunAnswers:
    """Return the predictions of a run: those in its folder if they are its checkpoint's, else computed ones.

    Computed ones are written to the folder, where it can be written and they are on the split beside it. A
    folder without a checkpoint needs ``answers.npz`` and ``recipe.yaml``, and neither pictures nor a split.

    Args:
        folder: of the run.
        session: where the model computes, and who is told of its progress.
        split: whose pictures are predicted; None: the split beside the run.

    Raises:
        CheckpointError: there is no run, it is damaged, or it is of another split.
        UsageError: there is no split, or no such device.
        DataError: pictures are gone, or the split has no test part.
        NonFiniteError: logits are NaN.
    """
    best = folder / "best.pt"
    if not best.is_file():
        return kept_answers(folder)
    from mptctl.models.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(best)
    kept = read_answers(folder)
    if (
        kept is not None
        and kept.head.digest == checkpoint.digest
        and (split is None or split.fingerprint == kept.head.split_fingerprint)
    ):
        return _with_current_work(kept, checkpoint)
    split_beside = split_above(folder)
    if split is None:
        split = split_beside or find_split(folder.parent, [folder])
    trained_on = checkpoint.meta.split_fingerprint
    if trained_on not in (None, split.fingerprint):
        raise CheckpointError(
            f"{best}: was trained on the split {str(trained_on)[:12]}, {split.run_root} has "
            f"{split.fingerprint[:12]}; compare runs of one split"
        )
    answers = _compute_answers(folder, checkpoint, relocate(split, session.data_root), session)
    if split_beside is not None and split_beside.fingerprint == split.fingerprint:
        _write_if_possible(answers)
    return answers


def _with_current_work(kept: RunAnswers, checkpoint: Checkpoint) -> RunAnswers:
    """Return kept predictions with the work of the run as it is now; written back if the work has changed.

    The work changes where the run was trained for longer, or a missing teacher is there now.
    """
    work = kept.head.work
    steps = count_steps(kept.folder).total
    pictures = None if steps is None else steps * kept.recipe.optim.batch_size
    if None not in work.teachers.values() and work.pictures == pictures:
        return kept
    from mptctl.studies.cost_of_run import count_run

    counted = count_run(kept.folder, checkpoint.meta)
    if counted == work:
        return kept
    answers = replace(kept, head=kept.head.model_copy(update={"work": counted}))
    _write_if_possible(answers)
    return answers


def _write_if_possible(answers: RunAnswers) -> None:
    """Write predictions to the run's folder; where that fails, they are computed again the next time."""
    with suppress(StorageError):
        write_answers(answers)


def split_above(folder: Path) -> Split | None:
    """Load the split of the run root that a run or its ensemble lies in; None where there is none."""
    for root in list(folder.resolve().parents)[:2]:
        if (root / SPLIT_NAME).is_file() and any(root.glob("split-*.arrow")):
            return load_split(root)
    return None


def _compute_answers(folder: Path, checkpoint: Checkpoint, split: Split, session: Session) -> RunAnswers:
    """Compute the predictions of a checkpoint on the validation and the test part, its calibration and work.

    Args:
        folder: of the run.
        checkpoint: its best one.
        split: whose pictures are predicted; without a validation part the predictions on it are empty.
        session: where the model computes.
    """
    from mptctl.inference.predict import predict
    from mptctl.studies.cost_of_run import count_run

    predictions = {
        part: predict({"run": checkpoint}, split, session, part=part)["run"]
        for part in PARTS
        if part == "test" or len(split.indices(part))
    }
    answers = {part: _answers_on(part, predicted, split) for part, predicted in predictions.items()}
    meta = checkpoint.meta
    head = AnswersHead(
        schema_version=SCHEMA_VERSION,
        digest=checkpoint.digest,
        teachers=meta.teachers,
        class_names=split.classes.names,
        num_old=split.classes.num_old,
        num_known=len(meta.class_names),
        request=split.file.request,
        split_fingerprint=split.fingerprint,
        work=count_run(folder, meta),
        calibration=_measure_calibration(predictions["test"], predictions.get("val")),
    )
    return RunAnswers(folder, meta.recipe, head, answers.get("val", no_answers()), answers["test"])


def _answers_on(part: Part, predictions: Predictions, split: Split) -> PartAnswers:
    """Predictions with logits on one part, in the order of the manifest, as the small file holds them."""
    names = split.classes.names
    pairing = pair({"run": predictions})
    scores = score(pairing, "run", frozenset(split.classes.old))
    if scores is None:
        raise ValueError("a model's predictions have logits")
    # Samples come in the order of their ids; these are their rows in the order of the manifest.
    rows = np.argsort(pairing.rows["run"])
    # The index among the split's classes of each label in the vocabulary.
    index_of = {name: i for i, name in enumerate(names)}
    class_of = np.array([index_of[label] for label in pairing.vocabulary], dtype=np.int64)
    answer = class_of[pairing.answers["run"][rows]]
    return round_answers(
        index=split.indices(part),
        label=class_of[pairing.truth[rows]],
        old_answer=class_of[scores.old_answer[rows]],
        new_answer=class_of[scores.new_answer[rows]],
        old_logit=scores.old_logit[rows],
        new_logit=scores.new_logit[rows],
        took_new=answer >= split.classes.num_old,
        confidence=scores.confidence[rows],
        classes=len(names),
    )


def _measure_calibration(test: Predictions, validation: Predictions | None) -> KeptCalibration:
    """Measure calibration on the test part, with a temperature fitted on the validation part if any."""
    from mptctl.evaluation.calibration.report import measure_calibration

    report = measure_calibration(test, validation)
    return KeptCalibration(
        **report.model_dump(include=set(KeptCalibration.model_fields)),
        scaled_ece=None if report.scaled is None else report.scaled.ece,
        scaled_aece=None if report.scaled is None else report.scaled.aece,
    )
