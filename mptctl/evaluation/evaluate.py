"""The comparison of two models, from their predictions to the typed report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

from mptctl.errors import DataError, UsageError, option
from mptctl.evaluation.causes import constant_of, find_causes
from mptctl.evaluation.flip_report import Difference, FlippedSample, FlipReport
from mptctl.evaluation.flips import (
    destinations,
    flip_rates,
    flips_by_answer,
    flips_by_class,
    flips_by_confidence,
    flips_by_pair,
    worst_flips,
)
from mptctl.evaluation.gate.gate_file import GateFile
from mptctl.evaluation.gate.rules import evaluate_gate, today_in_utc
from mptctl.evaluation.gate.two_readings import judge_both
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.noise_floor import noise_floor_of, refuse_other_classes
from mptctl.evaluation.pairing.class_map import ClassMap
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.pairs import ALL, GivenClasses, choose_old_classes, pair, unanswered_labels
from mptctl.evaluation.pairing.sanity import (
    comparison_warnings,
    idle_models,
    probabilities,
    same_answers,
    same_content,
    unrelated,
)
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.report_sections import (
    bias_curves,
    equivalence,
    margins_of,
    summarise,
)
from mptctl.evaluation.slices.derived_columns import OwnColumns
from mptctl.evaluation.slices.ranking import SliceRequest, rank
from mptctl.evaluation.slices.source import SliceSource
from mptctl.evaluation.statistics import er_increase, error_difference, exact_interval, mcnemar, nfr
from mptctl.evaluation.verdict import Gate
from mptctl.evaluation.weights import find_weights, weighted_rates


def compare(
    old: Predictions,
    new: Predictions,
    *,
    old_classes: GivenClasses = None,
    noise_floor: Predictions | None = None,
    baseline: Predictions | None = None,
    limits: Limits | None = None,
    nfr_margin: float | None = None,
    class_map: ClassMap | None = None,
    slicing: SliceRequest | None = None,
    weight: str | None = None,
    gate_file: GateFile | None = None,
    today: date | None = None,
    worst: int = 24,
    validation: Callable[[], Predictions | None] | None = None,
    identical: bool = False,
    unfinished: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> FlipReport:
    """Compare the model in production with its replacement on one test set.

    Args:
        old, new: their predictions, of the same samples in any order.
        old_classes: labels that count as old, or ``all``; default: those that the old model can answer, or else all,
            and then the gate has to pass without the labels that the old model never answers, too.
        noise_floor: another training of the old model; its NFR is what chance alone would flip.
        baseline: a model trained without any care for flips, whose bias curve is drawn beside the new one's.
        limits: the release gate.
        nfr_margin: a fraction; is NFR below it? Answered at `limits.confidence`, or else 95 %.
        class_map: classes of other names in old and new.
        slicing: the parts of the test set that are told apart.
        weight: a column of the slices' files: what a flip of each sample costs.
        gate_file: further limits, with what must be kept and what is waived.
        today: for waivers that expire; default: the day in UTC.
        worst: how many flipped samples to list.
        validation: asks for the new model's validation part, for causes of flips; without it none are looked for.
        identical: old and new are known to be one model; else their predictions say so where they are equal.
        unfinished: sentences on those of old and new whose run did not come to its end.
        warnings: what else is known of the models; the report's own warnings follow.

    Raises:
        DataError: ids or labels that do not match, or no test sample of an old class.
        CheckpointError: old classes that the new model does not know.
        UsageError: a margin that is not between 0 and 1, a limit that no rate of these samples can exceed, or a
            noise floor of other classes than the old model's.
    """
    limits = limits or Limits()
    if gate_file is not None:
        warnings = [*warnings, *gate_file.overruled(limits)]
        limits = gate_file.merged(limits)
    if nfr_margin is not None and not 0 < nfr_margin < 1:
        raise UsageError(f"--nfr-margin {100 * nfr_margin:g}: must lie between 0 and 100 percent")
    if noise_floor is not None:
        refuse_other_classes(old, noise_floor)
    given = {"old": old, "new": new, "noise_floor": noise_floor, "baseline": baseline}
    models = {role: model for role, model in given.items() if model is not None}
    if class_map is not None:
        models = class_map.applied(models)
        if old_classes is not None and old_classes != ALL:
            old_classes = class_map.old_classes(old_classes)
    chosen, remarks = choose_old_classes(models["old"], models["new"], old_classes)
    # The table of weights lives as long as it is read.
    weights, _table = (
        (None, None) if weight is None else find_weights(weight, (slicing or SliceRequest()).files)
    )
    answers = PairedAnswers(pair(models, weights), chosen)
    if not answers.counts().total:
        raise DataError(
            f"{new.name}: none of its {len(new)} samples is of an old class; "
            f"test on pictures of the old classes, or correct {option('old-classes')}"
        )
    identical = identical or same_content(answers.pairing)
    report = _report(
        answers,
        slicing or SliceRequest(),
        limits,
        gate_file or GateFile(),
        today or today_in_utc(),
        nfr_margin,
        worst,
        identical,
        list(unfinished),
        unanswered_labels(models["old"], old_classes),
        [*warnings, *remarks, *_doubts(answers, identical)],
    )
    more: dict[str, object] = {} if validation is None else _causes(answers, report, validation, class_map)
    if class_map is not None:
        more["class_map"] = class_map.classes
    if weight is not None:
        more["weighted"] = weighted_rates(answers, weight)
    return report.model_copy(update=more)


def _causes(
    answers: PairedAnswers,
    report: FlipReport,
    validation: Callable[[], Predictions | None],
    class_map: ClassMap | None,
) -> dict[str, object]:
    """Causes of flips, and the listed flips with theirs; the validation part is read only where it can heal one."""
    constant = None
    if report.destinations.to_new_class.count and "new" in answers.scores:
        held_back = validation()
        if held_back is not None and class_map is not None:
            held_back = class_map.renamed("new", held_back)
        constant = constant_of(held_back, answers.old_classes)
    found = find_causes(answers, constant)
    if found is None:
        return {}
    causes, by_id = found
    listed = [flip.model_copy(update={"cause": by_id[flip.id]}) for flip in report.worst_flips]
    return {"causes": causes, "worst_flips": listed}


def _report(
    answers: PairedAnswers,
    slicing: SliceRequest,
    limits: Limits,
    gate_file: GateFile,
    today: date,
    nfr_margin: float | None,
    worst: int,
    identical: bool,
    unfinished: list[str],
    silent: frozenset[str],
    warnings: list[str],
) -> FlipReport:
    """Every section of the report, each from the same answers."""
    counts = answers.counts()
    rates = flip_rates(counts, answers.changed())
    keys = dict.fromkeys(gate_file.keys(), "--gate: the column") | dict.fromkeys(slicing.by, "--by")
    own = OwnColumns(answers, slicing.superclasses, slicing.pictures)
    slices = SliceSource(own, slicing.files, keys)
    ranked, small = rank(slices, slicing, counts)
    gate, waived = evaluate_gate(slices, gate_file, limits, today, identical=identical, unfinished=unfinished)

    def judged_again(narrow: PairedAnswers) -> Gate:
        rules = dict.fromkeys(gate_file.keys(), "--gate: the column")
        source = SliceSource(OwnColumns(narrow, slicing.superclasses, slicing.pictures), slicing.files, rules)
        return evaluate_gate(source, gate_file, limits, today, identical=identical, unfinished=unfinished)[0]

    both = judge_both(answers, silent, gate, judged_again)
    if both is not None:
        gate, warnings = both.gate, [*warnings, both.warning]
    pairs, more_pairs = flips_by_pair(answers)
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
        identical=identical,
        unfinished=unfinished,
        gate=gate,
        rates=rates,
        er_difference=Difference(value=er_increase(counts), ci95=error_difference(counts)),
        equivalence=equivalence(counts, nfr_margin, limits.confidence or 0.95),
        noise_floor=noise_floor_of(answers),
        by_confidence=flips_by_confidence(answers),
        destinations=destinations(answers),
        margins=margins_of(answers),
        bias_sweep=bias_curves(answers),
        per_class=flips_by_class(answers),
        pairs=pairs,
        more_pairs=more_pairs,
        takers=flips_by_answer(answers),
        slices=ranked,
        small_slices=small,
        narrow=None if both is None else both.reading,
        worst_flips=_with_slices(worst_flips(answers, worst), slices, slicing, waived),
        warnings=warnings,
    )


def _with_slices(
    flips: list[FlippedSample], source: SliceSource, slicing: SliceRequest, waived: frozenset[str]
) -> list[FlippedSample]:
    """The listed flips, each with its values in the columns of --by, and whether it is waived."""
    columns = list(dict.fromkeys(column for key in slicing.by for column in key))
    values = source.values([flip.id for flip in flips], columns)
    if not values and not waived:
        return flips
    return [
        flip.model_copy(update={"by": values.get(flip.id, {}), "waived": flip.id in waived}) for flip in flips
    ]


def _doubts(answers: PairedAnswers, identical: bool) -> list[str]:
    """Warnings that the numbers themselves give rise to."""
    n = len(answers.pairing)
    alike = f"OLD and NEW predict all {n:,} samples alike, though they are not known to be one model"
    choices = len(answers.pairing.models["old"].classes or answers.old_classes)
    return [
        *[alike] * (same_answers(answers.pairing) and not identical),
        *comparison_warnings(answers.counts(), choices),
        *unrelated(answers.pairing, answers.cells_of_old),
        *probabilities(answers.pairing.models.values()),
        *idle_models(answers.pairing),
    ]
