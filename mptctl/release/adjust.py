"""Adjust a trained run: fold a shift that keeps a budget of flips, and a temperature, into its classifier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from mptctl.data.split import Split
from mptctl.errors import CheckpointError, DataError, UsageError
from mptctl.evaluation.bias.choice import Budget, barely_met_warning, choose_bias
from mptctl.evaluation.bias.validation_samples import ValidationSamples, validation_samples
from mptctl.evaluation.calibration.probabilities import score_probabilities
from mptctl.evaluation.calibration.temperature import fit_temperature
from mptctl.evaluation.pairing.confusion import LIKELY_CAUSE
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.pairs import choose_old_classes, pair
from mptctl.evaluation.pairing.sanity import IDENTICAL, never_right_sentence, same_content
from mptctl.evaluation.reading.readers import is_predictions_file
from mptctl.evaluation.statistics import exact_interval
from mptctl.inference.named_models import NamedModels, load_predictions
from mptctl.inference.own_models import find_split_of_models
from mptctl.machine.facts import git_commit, versions
from mptctl.methods.rows import first_best_epoch
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_checkpoint, load_model
from mptctl.models.heads import fold_into_head
from mptctl.models.metrics_log import planned_epochs, read_metrics
from mptctl.models.ownership import Existing, refuse_own_inputs, run_folder, run_name
from mptctl.models.records import Adjustment, Validation
from mptctl.models.run_folder import RunDir, find_checkpoint
from mptctl.names import Session
from mptctl.release.adjust_report import AdjustFigures, AdjustReport, Chosen
from mptctl.release.new_run import refuse_unfit, warn_of_unknown_training, write_run
from mptctl.release.requests import SUFFIX, AdjustSettings


def adjust(request: AdjustSettings, session: Session) -> AdjustReport:
    """Choose a shift and a temperature on the validation part, and write the adjusted run to a new folder.

    The test part is not read.

    Args:
        request: the run, and the limits.
        session: where runs and the split are, and where the models compute. A run of another run root, named
            by its path, brings the split of that root.

    Raises:
        UsageError: there is nothing to adjust; a budget has no old model, or one that is the new model; the
            split has no validation part; the run is not finished; a budget is given for a run that was
            adjusted before; the name is taken; or the classifier has no bias.
        CheckpointError: there is no such run, it is of another split, or the old model is never right, no
            better than chance, or has exchanged class names.
        DataError: predictions cannot be loaded (see `load_predictions`), no validation picture is of an old
            class, or no temperature fits best.
        GateFailed: no shift meets the budget; nothing is written.
        StorageError: the folder cannot be written.
    """
    _refuse_contradictions(request)
    path = find_checkpoint(request.new, session.run_root)
    checkpoints = [path]
    if request.old is not None and not _is_predictions(request.old):
        checkpoints.append(find_checkpoint(request.old, session.run_root))
    split = find_split_of_models(checkpoints, session)
    checkpoint = load_checkpoint(path)
    refuse_unfit(checkpoint, split)
    _refuse_second_choice(request, checkpoint)
    run = RunDir(run_folder(split.run_root, request.name or _default_name(path, split.run_root)))
    refuse_own_inputs(run.path, checkpoints)
    existing: Existing = "replace" if request.overwrite else "refuse for good"
    run.refuse_unusable(existing)

    loaded = load_predictions(request.models, session, part="val")
    answers, remarks = _pair_with_old_classes(loaded, split)
    if request.budget is not None:
        _refuse_no_comparison(loaded, answers)
    remarks += warn_of_unknown_training(checkpoint)
    samples = validation_samples(answers)
    report = _choose(request, run, checkpoint, samples, remarks)
    chosen = report.chosen
    model = load_model(checkpoint)
    biases = torch.from_numpy(np.where(samples.is_new, chosen.bias, 0.0))
    fold_into_head(model, checkpoint.meta.recipe.model.arch, biases, chosen.temperature)
    meta = _adjusted_meta(request, checkpoint, report, samples)
    notes = write_run(run, existing, meta, model.state_dict(), split)
    return report.model_copy(update={"warnings": [*report.warnings, *notes]})


def _choose(
    request: AdjustSettings,
    run: RunDir,
    checkpoint: Checkpoint,
    samples: ValidationSamples,
    remarks: list[str],
) -> AdjustReport:
    """Choose a bias if there is a budget, then fit the temperature of the shifted logits if asked for.

    Returns:
        The report, with the rates of the adjusted model and of the model as it was.
    """
    epochs = count_candidates(checkpoint)  # the same samples chose one of them
    budget = replace(request.budget or Budget(), epochs=epochs)
    choice = None if request.budget is None else choose_bias(samples, budget)
    bias = 0.0 if choice is None else choice.bias
    level = 0.95 if choice is None else choice.level
    warning = None if choice is None else barely_met_warning(choice, budget)
    temperature = _fit_temperature(samples, bias) if request.temperature else 1.0
    names = np.array(checkpoint.meta.class_names)[samples.is_new].tolist()
    has_old = request.old is not None
    return AdjustReport(
        chosen=Chosen(
            kind="bias" if bias else "none",
            bias=bias,
            biases=dict.fromkeys(names, bias) if bias else {},
            temperature=temperature,
        ),
        validation=report_rates(samples, bias, temperature, level, has_old=has_old),
        before=report_rates(samples, 0.0, 1.0, level, has_old=has_old),
        max_nfr=budget.max_nfr,
        max_er_increase=budget.max_er_increase,
        confidence=budget.confidence,
        epochs=epochs,
        run=str(run.path),
        best=str(run.best),
        warnings=remarks if warning is None else [*remarks, warning],
    )


def count_candidates(checkpoint: Checkpoint) -> int:
    """The number of epochs among which validation samples chose this checkpoint's epoch.

    Validation samples choose ``best.pt`` among all planned epochs. With ``optim.patience`` they also choose
    the run's end, and so ``last.pt`` and ``previous.pt``. Without patience they do not choose these two, and
    they never choose a model that was trained elsewhere: the number is 1. Without a log beside the checkpoint
    it is the largest number that the recipe allows.
    """
    recipe = checkpoint.meta.recipe
    if checkpoint.meta.origin == "imported":
        return 1
    # Only last.pt and previous.pt hold the state from which --resume goes on.
    is_last_or_previous = checkpoint.training is not None
    if is_last_or_previous and recipe.optim.patience is None:
        return 1
    lines = read_metrics(RunDir(checkpoint.path.resolve().parent).metrics)
    epochs = planned_epochs(lines) or recipe.optim.epochs
    return max(1, epochs - first_best_epoch(recipe.method, epochs))


def _default_name(path: Path, run_root: Path) -> str:
    """The default name of the adjusted run: that of the run of the checkpoint at ``path``, with `SUFFIX`."""
    return run_name(path.resolve().parent, run_root) + SUFFIX


def _refuse_contradictions(request: AdjustSettings) -> None:
    """Raise UsageError for a request with nothing to adjust, a budget without an old model, or no run."""
    if request.budget is None and not request.temperature:
        raise UsageError("nothing to adjust: give --max-nfr, --max-er-increase or --temperature")
    if request.budget is not None and request.old is None:
        raise UsageError(
            "--max-nfr and --max-er-increase: count flips against the old model; name it with --old"
        )
    if _is_predictions(request.new):
        raise UsageError(f"{request.new}: a predictions file has no weights to adjust; name a run")


def _is_predictions(name: str) -> bool:
    """Whether a model is named by a predictions file."""
    return is_predictions_file(Path(name).expanduser())


def _refuse_second_choice(request: AdjustSettings, checkpoint: Checkpoint) -> None:
    """Raise UsageError for a budget on a run that was adjusted before."""
    before = checkpoint.meta.adjustment
    if before is not None and request.budget is not None:
        raise UsageError(
            f"{checkpoint.path}: was adjusted before, and a second choice on the same pictures keeps no "
            f"bound; adjust {before.adjusted}"
        )


def _pair_with_old_classes(loaded: NamedModels, split: Split) -> tuple[PairedAnswers, list[str]]:
    """Pair the predictions on the validation part, and return them with warnings.

    Old classes are those that the old model knows. Where it does not say so, and without an old model, they
    are those of the split.
    """
    models = dict(loaded.models)
    old = models.get("old")
    if old is None:
        return PairedAnswers(pair(models), frozenset(split.classes.old)), list(loaded.warnings)
    given_classes = split.classes.old if old.classes is None else None
    chosen = choose_old_classes(old, models["new"], given_classes)
    return PairedAnswers(pair(models), chosen.labels), [*loaded.warnings, *chosen.warnings]


def _refuse_no_comparison(loaded: NamedModels, answers: PairedAnswers) -> None:
    """Refuse models whose flips say nothing.

    Raises:
        UsageError: one model twice, or an unfinished run.
        CheckpointError: the old model is never right, no better than chance, or has exchanged class names.
    """
    if loaded.identical or same_content(answers.pairing):
        raise UsageError(f"--old: {IDENTICAL}; name the model that is in production")
    for sentence in loaded.unfinished:
        raise UsageError(f"{sentence}; finish it first, with the command that began it and --resume")
    if not answers.counts().total:
        return  # `choose_bias` refuses a part without samples of old classes
    old = answers.pairing.models["old"].name
    if not answers.counts().old_right:
        raise CheckpointError(f"{old}: {never_right_sentence(answers.counts())}; {LIKELY_CAUSE}")
    for fault in answers.old_faults:
        raise CheckpointError(f"{old}: {fault.message}")


def _fit_temperature(samples: ValidationSamples, bias: float) -> float:
    """The temperature of the shifted logits, fitted on samples of the classes that the model knows.

    Raises:
        DataError: no temperature fits best.
    """
    is_known = samples.truth >= 0
    logits = samples.logits[is_known] - bias * samples.is_new
    fit = fit_temperature(logits, samples.truth[is_known])
    if fit.temperature is None:
        raise DataError(
            f"--temperature: there is none: {fit.failure}; leave it out, or hold out more pictures"
        )
    return fit.temperature


def _adjusted_meta(
    request: AdjustSettings, checkpoint: Checkpoint, report: AdjustReport, samples: ValidationSamples
) -> CheckpointMeta:
    """The meta data of the adjusted checkpoint."""
    adjustment = Adjustment(
        adjusted=checkpoint.path.resolve().parent.name,
        digest=checkpoint.digest,
        old=None if request.old is None else Path(request.old).name,
        **report.model_dump(include={"max_nfr", "max_er_increase", "confidence"}),
        **report.chosen.model_dump(include={"kind", "biases", "temperature"}),
        **report.validation.model_dump(include={"nfr", "bound", "flips", "samples_old"}),
    )
    has_old = request.old is not None
    metrics = validation_counts(samples, report.chosen.bias, has_old=has_old).figures()
    return checkpoint.meta.model_copy(
        update={
            "adjustment": adjustment,
            "metrics": metrics,
            "best_error": metrics["val_error"],
            "versions": versions(),
            "git_commit": git_commit(),
        }
    )


def report_rates(
    samples: ValidationSamples, bias: float, temperature: float, level: float, *, has_old: bool
) -> AdjustFigures:
    """The rates of the report; those of flips are None without an old model or samples of old classes.

    Args:
        samples: to compute the rates on.
        bias: what is subtracted from the new classes' logits.
        temperature: what the logits are divided by afterwards; only the NLL depends on it.
        level: of the two-sided interval of NFR whose upper end is the bound.
        has_old: there is an old model.
    """
    counts = validation_counts(samples, bias, has_old=has_old)
    bound = None
    if counts.flips is not None and counts.samples_old:
        bound = exact_interval(counts.flips, counts.samples_old, level)[1]
    is_known = samples.truth >= 0  # of a class that the model knows
    nll = None
    if is_known.any():
        logits = samples.logits[is_known] - bias * samples.is_new
        nll = score_probabilities(logits, samples.truth[is_known], temperature).nll
    return AdjustFigures(
        nfr=counts.nfr,
        bound=bound,
        er_all=counts.errors / counts.samples,
        flips=None if bound is None else counts.flips,
        samples_old=None if bound is None else counts.samples_old,
        errors=counts.errors,
        samples=counts.samples,
        nll=nll,
    )


def validation_counts(samples: ValidationSamples, bias: float, *, has_old: bool) -> Validation:
    """The counts on validation samples, as after a training.

    Args:
        samples: the whole validation part.
        bias: what is subtracted from the new classes' logits.
        has_old: there is an old model; without one nothing is said of flips.
    """
    wrong = samples.answers.at(bias)
    return Validation(
        errors=int(wrong.sum()),
        samples=len(samples),
        errors_old=int(wrong[samples.of_old].sum()),
        samples_old=samples.n_old,
        flips=int((wrong & samples.to_keep).sum()) if has_old else None,
    )
