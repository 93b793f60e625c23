"""A trained run made to keep a budget: a bias and a temperature are folded into its classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from mptctl.data.split import Split
from mptctl.errors import DataError, UsageError
from mptctl.evaluation.bias.choice import BiasChoice, choose_bias, warn_if_barely_met
from mptctl.evaluation.bias.mixture import Mixture, mix_old_in
from mptctl.evaluation.bias.validation_samples import FloatArray, ValidationSamples, validation_samples
from mptctl.evaluation.calibration.temperature import fit_temperature
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.pairs import choose_old_classes, pair
from mptctl.evaluation.pairing.sanity import IDENTICAL, same_content
from mptctl.evaluation.reading.readers import is_predictions_file
from mptctl.inference.named_models import NamedModels, load_predictions
from mptctl.inference.own_models import split_of
from mptctl.machine.facts import git_commit, versions
from mptctl.methods.rows import first_best_epoch
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_checkpoint, load_model
from mptctl.models.heads import fold_into_head
from mptctl.models.metrics_log import MetricsLine, read_metrics
from mptctl.models.ownership import Existing, refuse_own_inputs, run_folder
from mptctl.models.records import Adjustment
from mptctl.models.run_folder import RunDir, find_checkpoint
from mptctl.names import Session
from mptctl.release.adjust_report import SUFFIX, AdjustReport, AdjustRequest, Chosen, limits_of
from mptctl.release.chance_flips import below_chance
from mptctl.release.measured import figures, metrics
from mptctl.release.new_run import refuse_unfit, warn_of_unknown_training, write_run


@dataclass(frozen=True)
class Adjusted:
    """The result of `adjust`.

    Attributes:
        report: for programs.
        folder: the run folder.
        choice: the bias and what else was looked at; None without a budget.
        mixture: two models at inference, on the whole validation part; None without the old model's logits.
        class_labels: names for people by class id; None where the split has none.
    """

    report: AdjustReport
    folder: RunDir
    choice: BiasChoice | None
    mixture: Mixture | None
    class_labels: dict[str, str] | None


def adjust(request: AdjustRequest, session: Session) -> Adjusted:
    """Choose on the validation part, fold, and write a run folder; the test part is not read.

    Args:
        request: what was asked for.
        session: where runs and the split are (a run of another root, named by its path, brings its own), and
            where the models compute.

    Raises:
        UsageError: nothing to do, no old model for a budget, one that is the new model, no validation part, a
            run that is not finished or was adjusted before, a name that is taken, or a classifier without a
            bias.
        CheckpointError: no such run, or one of another split.
        DataError: what `load_predictions` says of the models, no validation picture of an old class, or no
            temperature that fits best.
        GateFailed: no bias meets the budget; nothing is written.
        StorageError: the folder cannot be written.
    """
    _refuse_contradictions(request)
    path = find_checkpoint(request.new, session.run_root)
    checkpoints = [path]
    if request.old is not None and not _names_predictions(request.old):
        checkpoints.append(find_checkpoint(request.old, session.run_root))
    split = split_of(checkpoints, session)
    checkpoint = load_checkpoint(path)
    refuse_unfit(checkpoint, split)
    _refuse_second_choice(request, checkpoint)
    run = RunDir(run_folder(split.run_root, request.name or default_name(path, split.run_root)))
    refuse_own_inputs(run.path, checkpoints)
    if_there: Existing = "replace" if request.overwrite else "refuse for good"
    run.refuse_unusable(if_there)

    found = load_predictions(request.names, session, part="val")
    answers, remarks = _answers(found, split)
    if request.budget is not None:
        _refuse_no_comparison(found, answers)
    remarks += warn_of_unknown_training(checkpoint) + below_chance(request.budget, answers)
    samples = validation_samples(answers)
    selection = _select(request, checkpoint, samples)
    remarks += selection.warnings
    model = load_model(checkpoint)
    biases = torch.from_numpy(selection.biases)
    fold_into_head(model, checkpoint.meta.recipe.model.arch, biases, selection.temperature)
    report = _report(request, run, checkpoint, selection, remarks)
    meta, line = _records(request, checkpoint, report, selection)
    notes = write_run(run, if_there, meta, model, split, line)
    report = report.model_copy(update={"warnings": [*report.warnings, *notes]})
    mixture = None if selection.choice is None else _mixture(answers, samples)
    return Adjusted(report, run, selection.choice, mixture, split.file.class_labels)


@dataclass(frozen=True)
class _Selection:
    """The biases and the temperature that validation samples chose.

    Attributes:
        samples: the validation part.
        epochs: of the training, of which the same samples chose one.
        choice: the biases and what else was looked at; None without a budget.
        biases: (C,) taken off each logit.
        temperature: the logits are divided by it afterwards.
        warnings: on a budget that is hardly kept.
    """

    samples: ValidationSamples
    epochs: int
    choice: BiasChoice | None
    biases: FloatArray
    temperature: float
    warnings: list[str]


def _select(request: AdjustRequest, checkpoint: Checkpoint, samples: ValidationSamples) -> _Selection:
    """Choose biases where there is a budget, and then the temperature that is asked for."""
    epochs, choice, near = count_candidates(checkpoint), None, None
    if request.budget is not None:
        budget = replace(request.budget, epochs=epochs)
        choice = choose_bias(samples, budget)
        near = warn_if_barely_met(choice, budget)
    biases = np.zeros(samples.logits.shape[1]) if choice is None else choice.biases
    temperature = _temperature(samples, biases) if request.temperature else 1.0
    return _Selection(samples, epochs, choice, biases, temperature, [] if near is None else [near])


def count_candidates(checkpoint: Checkpoint) -> int:
    """The number of epochs among which validation samples chose the one of this checkpoint.

    They choose ``best.pt``. It is 1 where they chose nothing: for ``last.pt`` and ``previous.pt``, and for a
    model that was trained elsewhere. Where no log lies beside the checkpoint, the recipe says how many epochs
    there were at most.
    """
    recipe = checkpoint.meta.recipe
    # Only last.pt and previous.pt hold the state from which --resume goes on.
    is_last_or_previous = checkpoint.training is not None
    if is_last_or_previous or checkpoint.meta.origin == "imported":
        return 1
    lines = read_metrics(RunDir(checkpoint.path.resolve().parent).metrics)
    validated = [line.epoch for line in lines if line.event == "epoch"]
    epochs = max(validated, default=recipe.optim.epochs)
    return max(1, epochs - first_best_epoch(recipe.method, epochs))


def default_name(path: Path, run_root: Path) -> str:
    """The name below the run root that an adjusted run has where none is given."""
    folder, root = path.resolve().parent, run_root.resolve()
    name = (
        folder.relative_to(root).as_posix() if folder.is_relative_to(root) and folder != root else folder.name
    )
    return name + SUFFIX


def _refuse_contradictions(request: AdjustRequest) -> None:
    if request.budget is None and not request.temperature:
        raise UsageError("nothing to adjust: give --max-nfr, --max-er-increase or --temperature")
    if request.budget is not None and request.old is None:
        raise UsageError(
            "--max-nfr and --max-er-increase: count flips against the old model; name it with --old"
        )
    if _names_predictions(request.new):
        raise UsageError(f"{request.new}: a predictions file has no weights to adjust; name a run")


def _names_predictions(name: str) -> bool:
    return is_predictions_file(Path(name).expanduser())


def _refuse_second_choice(request: AdjustRequest, checkpoint: Checkpoint) -> None:
    before = checkpoint.meta.adjustment
    if before is not None and request.budget is not None:
        raise UsageError(
            f"{checkpoint.path}: was adjusted before, and a second choice on the same pictures keeps no "
            f"bound; adjust {before.adjusted}"
        )


def _answers(found: NamedModels, split: Split) -> tuple[PairedAnswers, list[str]]:
    """The answers on the validation part, and what is to be known of them."""
    models = dict(found.models)
    if "old" not in models:
        return PairedAnswers(pair(models), frozenset(split.classes.old)), list(found.warnings)
    # An old model that does not say what it knows is that of the split: its old classes are at hand.
    known = None if models["old"].classes is not None else split.classes.old
    chosen, remarks = choose_old_classes(models["old"], models["new"], known)
    return PairedAnswers(pair(models), chosen), [*found.warnings, *remarks]


def _refuse_no_comparison(found: NamedModels, answers: PairedAnswers) -> None:
    """Refuse models between which flips say nothing: one model twice, or one of an unfinished run."""
    if found.identical or same_content(answers.pairing):
        raise UsageError(f"--old: {IDENTICAL}; name the model that is in production")
    for sentence in found.unfinished:
        raise UsageError(f"{sentence}; finish it first, with the command that began it and --resume")


def _temperature(samples: ValidationSamples, biases: FloatArray) -> float:
    """That of the biased logits, on samples of the classes that the model knows."""
    known = samples.truth >= 0
    fit = fit_temperature(samples.logits[known] - biases, samples.truth[known])
    if fit.temperature is None:
        raise DataError(
            f"--temperature: there is none: {fit.failure}; leave it out, or hold out more pictures"
        )
    return fit.temperature


def _report(
    request: AdjustRequest, run: RunDir, checkpoint: Checkpoint, selection: _Selection, warnings: list[str]
) -> AdjustReport:
    choice, biases = selection.choice, selection.biases
    kind = "none" if choice is None else choice.kind
    # A choice is judged on those samples alone that did not fit the direction of its biases.
    judged = selection.samples if choice is None else choice.line.samples
    level = 0.95 if choice is None else choice.level
    known_old = request.old is not None
    bias_by_class = zip(checkpoint.meta.class_names, biases.tolist(), strict=True)
    chosen = Chosen(
        kind=kind,
        # One bias is taken off all new classes, and 0 off the old ones: so it is the largest.
        bias=None if kind == "per-class" else max([0.0, *biases.tolist()]),
        biases={name: bias for name, bias in bias_by_class if bias != 0},
        temperature=selection.temperature,
    )
    confidence = 0.95 if request.budget is None else request.budget.confidence
    return AdjustReport(
        chosen=chosen,
        validation=figures(judged, biases, selection.temperature, level, known_old=known_old),
        before=figures(judged, np.zeros_like(biases), 1.0, level, known_old=known_old),
        **limits_of(request.budget),
        confidence=confidence,
        epochs=selection.epochs,
        run=str(run.path),
        best=str(run.best),
        warnings=warnings,
    )


def _records(
    request: AdjustRequest, checkpoint: Checkpoint, report: AdjustReport, selection: _Selection
) -> tuple[CheckpointMeta, MetricsLine]:
    """The description of the adjusted checkpoint, and the line of its log."""
    adjustment = _adjustment(request, checkpoint, report)
    measured = metrics(selection.samples, selection.biases, known_old=request.old is not None)
    meta = checkpoint.meta.model_copy(
        update={
            "adjustment": adjustment,
            "metrics": measured,
            "best_error": measured["val_error"],
            "versions": versions(),
            "git_commit": git_commit(),
        }
    )
    place = {"epoch": max(meta.epoch, 1), "step": meta.global_step}
    return meta, MetricsLine.model_validate(
        {"event": "adjust", "adjustment": adjustment, **place, **measured}
    )


def _adjustment(request: AdjustRequest, checkpoint: Checkpoint, report: AdjustReport) -> Adjustment:
    after = report.validation
    return Adjustment(
        adjusted=checkpoint.path.resolve().parent.name,
        digest=checkpoint.digest,
        old=None if request.old is None else Path(request.old).name,
        kind=report.chosen.kind,
        biases=report.chosen.biases,
        temperature=report.chosen.temperature,
        **limits_of(request.budget),
        confidence=report.confidence,
        nfr=after.nfr,
        bound=after.bound,
        flips=after.flips,
        samples_old=after.samples_old,
    )


def _mixture(answers: PairedAnswers, samples: ValidationSamples) -> Mixture | None:
    """None where the old model has no logits, or does not know exactly the old classes."""
    pairing = answers.pairing
    old, new = pairing.models["old"], pairing.models["new"]
    if (
        old.logits is None
        or old.classes is None
        or new.classes is None
        or set(old.classes) != answers.old_classes
    ):
        return None
    place = {label: column for column, label in enumerate(old.classes)}
    columns = [place[label] for label in new.classes if label in place]
    rows = np.asarray(old.logits)[pairing.rows["old"]].astype(np.float64)
    return mix_old_in(samples, rows[:, columns])
