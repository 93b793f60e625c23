"""The comparison of two models, from their predictions to the typed report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from mptctl.errors import DataError, option
from mptctl.evaluation.flip_report import SHOWN_FLIPS, ErrorDifference, FlippedSample, FlipReport
from mptctl.evaluation.flips import destinations, flip_rates, flips_by_class, flips_by_pair, worst_flips
from mptctl.evaluation.gate.gate_file import GateFile
from mptctl.evaluation.gate.rules import GateVerdict, evaluate_gate, today_in_utc
from mptctl.evaluation.limits import Limits, refuse_unknown_classes
from mptctl.evaluation.model_summary import summarise
from mptctl.evaluation.pairing.class_map import ClassMap
from mptctl.evaluation.pairing.confusion import never_right_warnings
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.pairs import ALL, GivenClasses, choose_old_classes, pair
from mptctl.evaluation.pairing.sanity import (
    comparison_warnings,
    probability_warnings,
    same_answers,
    same_content,
    swap_warnings,
    unrelated_warnings,
)
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.slices.ranking import SliceRequest, rank
from mptctl.evaluation.slices.source import SliceSource
from mptctl.evaluation.statistics import er_increase, er_increase_interval, exact_interval, mcnemar, nfr


@dataclass(frozen=True, kw_only=True)
class ComparisonRequest:
    """What a comparison should compute, and facts on its models that their predictions do not show.

    Attributes:
        old_classes: labels that count as old, or ``all``; those of the gate file take their place. Default:
            the classes that the old model names, or if it names none the labels that it predicts.
        limits: the limits of the gate, from flags or arguments.
        class_map: names of classes that differ between old and new.
        slicing: the parts of the test set whose flips are compared with the rest.
        gate_file: further limits, samples that must be kept, and waivers.
        today: the day by which waivers expire; default: today in UTC.
        listed_flips: how many flipped samples to list.
        identical: old and new are known to be one model. Predictions with equal answers, classes and logits
            (`same_content`) count as one model's anyway.
        unfinished: a sentence on each of old and new whose run did not come to its end.
        warnings: of the caller, on the models; the report's own warnings follow.
    """

    old_classes: GivenClasses = None
    limits: Limits = field(default_factory=Limits)
    class_map: ClassMap | None = None
    slicing: SliceRequest = field(default_factory=SliceRequest)
    gate_file: GateFile | None = None
    today: date = field(default_factory=today_in_utc)
    listed_flips: int = SHOWN_FLIPS
    identical: bool = False
    unfinished: Sequence[str] = ()
    warnings: Sequence[str] = ()

    @property
    def rules(self) -> GateFile:
        """The gate file; an empty one where none is given."""
        return self.gate_file or GateFile()

    @property
    def renamed(self) -> frozenset[str]:
        """Classes of the old model that `class_map` renames, merges or splits; none without a map."""
        return frozenset() if self.class_map is None else frozenset(self.class_map.old)


def compare(old: Predictions, new: Predictions, request: ComparisonRequest | None = None) -> FlipReport:
    """Compare the model in production with its replacement on one test set.

    Args:
        old, new: predictions of the two models, on the same samples in any order.
        request: what to compute; default: the rates, without a limit.

    Raises:
        DataError: ids or labels do not match, no test sample is of an old class, or the new model, from a
            predictions file, does not know all old classes.
        CheckpointError: the new model, from a checkpoint, does not know all old classes.
        UsageError: a limit that no rate of these samples can exceed, or one that needs the old model's
            classes.
    """
    request = request or ComparisonRequest()
    warnings = [*request.warnings]
    if request.gate_file is not None:
        warnings += request.gate_file.overruled(request.limits)
        request = replace(request, limits=request.gate_file.merged(request.limits))
    models = {"old": old, "new": new}
    old_classes = request.rules.given_old_classes
    named_by = request.rules.name_of_old_classes
    if old_classes is None:
        old_classes = request.old_classes
        named_by = option("old-classes")
    if request.class_map is not None:
        models = request.class_map.apply(models)
        if old_classes is not None and old_classes != ALL:
            old_classes = request.class_map.rename_old_classes(old_classes)
    chosen = choose_old_classes(models["old"], models["new"], old_classes, named_by)
    request.rules.refuse_unknown_classes(chosen.never_predicted)
    refuse_unknown_classes(request.limits, chosen.never_predicted)
    answers = PairedAnswers(pair(models), chosen.labels)
    if not answers.counts().total:
        raise DataError(
            f"{new.name}: none of its {len(new)} samples is of an old class; "
            "test on pictures of the old classes, or correct the classes that are called old"
        )
    identical = request.identical or same_content(answers.pairing)
    warnings += [*chosen.warnings, *_warnings(answers, identical)]
    request = replace(request, identical=identical, warnings=warnings)
    return _report(answers, request, chosen.never_predicted)


def _report(answers: PairedAnswers, request: ComparisonRequest, silent: list[str]) -> FlipReport:
    """Compute every section of the report from the same answers.

    Args:
        answers: of all models.
        request: what to compute, with the facts and warnings that are known by now.
        silent: labels that the old model never predicts, if it does not name its classes.
    """
    counts = answers.counts()
    rates = flip_rates(counts, answers.changed())
    slices = _slice_source(answers, request)
    ranked, small = rank(slices, request.slicing, counts)
    verdict = evaluate_gate(
        slices,
        request.rules,
        request.limits,
        request.today,
        identical=request.identical,
        unfinished=request.unfinished,
    )
    return FlipReport(
        n=len(answers.pairing),
        n_old=counts.total,
        counts=counts,
        nfr=nfr(counts),
        pfr=counts.positive_flips / counts.total,
        rel_nfr=rates.rel_nfr.value,
        nfi=rates.nfi.value,
        lost=rates.lost.value,
        churn=answers.changed() / counts.total,
        old=summarise(answers, "old"),
        new=summarise(answers, "new"),
        nfr_ci95=exact_interval(counts.negative_flips, counts.total),
        mcnemar_p=mcnemar(counts),
        identical=request.identical,
        unfinished=list(request.unfinished),
        old_faults=answers.old_faults,
        gate=verdict.gate,
        rates=rates,
        er_difference=ErrorDifference(value=er_increase(counts), ci95=er_increase_interval(counts)),
        destinations=destinations(answers),
        per_class=flips_by_class(answers),
        pairs=flips_by_pair(answers),
        slices=ranked,
        small_slices=small,
        class_map=None if request.class_map is None else request.class_map.classes,
        never_predicted=silent,
        worst_flips=_listed_flips(answers, request, slices, verdict),
        warnings=list(request.warnings),
    )


def _slice_source(answers: PairedAnswers, request: ComparisonRequest) -> SliceSource:
    """Make the source of the slices that --by and the gate file name."""
    slicing = request.slicing
    flag_of_key = dict.fromkeys(request.rules.keys(), "--gate: the column")
    flag_of_key |= dict.fromkeys(slicing.by, option("by"))
    return SliceSource(answers, slicing.files, flag_of_key)


def _listed_flips(
    answers: PairedAnswers, request: ComparisonRequest, slices: SliceSource, verdict: GateVerdict
) -> list[FlippedSample]:
    """List the worst flips, each with its values in the columns of --by, waived and must_keep."""
    flips = worst_flips(answers, request.listed_flips)
    columns = list(dict.fromkeys(column for key in request.slicing.by for column in key))
    samples = slices.named([flip.id for flip in flips] if columns else [])
    return [
        flip.model_copy(
            update={
                "by": {column: samples[flip.id].values[column] for column in columns},
                "waived": flip.id in verdict.waived,
                "must_keep": flip.id in verdict.must_keep,
            }
        )
        for flip in flips
    ]


def _warnings(answers: PairedAnswers, identical: bool) -> list[str]:
    """Return the warnings that follow from the predictions themselves.

    Args:
        answers: of all models.
        identical: OLD and NEW are known to be one model.
    """
    pairing = answers.pairing
    warnings = []
    if same_answers(pairing) and not identical:  # answers are equal, classes or logits are not
        warnings.append(
            f"OLD and NEW predict all {len(pairing):,} samples alike, though they are not known to be one "
            "model"
        )
    choices = len(pairing.models["old"].classes or answers.old_classes)
    return [
        *warnings,
        *comparison_warnings(answers.counts(), choices),
        *(fault.message for fault in answers.old_faults),
        *never_right_warnings(answers.confusion_of_old, pairing.vocabulary),
        *unrelated_warnings(answers),
        *swap_warnings(answers),
        *probability_warnings(pairing.models.values()),
    ]
