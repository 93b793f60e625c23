"""The comparison of two models, from their predictions to the typed report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.bias_sweep import sweep_bias
from mptctl.evaluation.calibration import calibrate
from mptctl.evaluation.columns import first
from mptctl.evaluation.flip_report import (
    Counts,
    Difference,
    Equivalence,
    Errors,
    FlipReport,
    Margins,
    ModelSummary,
    NoiseFloor,
    SweepCurve,
)
from mptctl.evaluation.flips import (
    count_flips,
    destinations,
    flip_rates,
    flips_by_answer,
    flips_by_class,
    flips_by_confidence,
    flips_by_pair,
    worst_flips,
)
from mptctl.evaluation.gate import Limits, check_gate
from mptctl.evaluation.margins import Group, margin_summary
from mptctl.evaluation.pairing import Pairing, choose_old_classes, pair
from mptctl.evaluation.predictions import Predictions
from mptctl.evaluation.sanity import doubts, same_answers, same_content
from mptctl.evaluation.scores import Scores, score
from mptctl.evaluation.statistics import below, error_difference, mcnemar, rate, wilson

BoolArray = NDArray[np.bool_]


def compare(
    old: Predictions,
    new: Predictions,
    *,
    old_classes: Sequence[str] | None = None,
    noise_floor: Predictions | None = None,
    baseline: Predictions | None = None,
    limits: Limits | None = None,
    margin: float | None = None,
    worst: int = 24,
    identical: bool = False,
    unfinished: Sequence[str] = (),
) -> FlipReport:
    """Compare the model in production with its replacement on one test set.

    Args:
        old, new: their predictions, of the same samples in any order.
        old_classes: labels that count as old; default: those that the old model can answer, or else all.
        noise_floor: another training of the old model; its NFR is what chance alone would flip.
        baseline: a model trained without any care for flips, whose bias curve is drawn beside the new one's.
        limits: the release gate.
        margin: a fraction; is NFR below it? Answered at `limits.confidence`, or else 95 %.
        worst: how many flipped samples to list.
        identical: old and new are known to be one model; else their predictions say so where they are equal.
        unfinished: sentences on those of old and new whose run did not come to its end.

    Raises:
        DataError: ids or labels that do not match, or no test sample of an old class.
        CheckpointError: old classes that the new model does not know.
        UsageError: a margin that is not between 0 and 1, a limit that no rate of these samples can exceed, or a
            noise floor of other classes than the old model's.
    """
    limits = limits or Limits()
    if margin is not None and not 0 < margin < 1:
        raise UsageError(f"--margin {100 * margin:g}: must lie between 0 and 100 percent")
    if noise_floor is not None:
        _check_retrained(old, noise_floor)
    chosen, warnings = choose_old_classes(old, new, old_classes)
    others = [model for model in (noise_floor, baseline) if model is not None]
    pairing = pair([old, new, *others])
    is_old = pairing.among(chosen)
    of_old = is_old[pairing.truth]
    if not of_old.any():
        raise DataError(
            f"{new.name}: none of its {len(pairing.ids)} samples is of an old class; "
            "test on pictures of the old classes, or correct --old-classes"
        )
    right = [answers == pairing.truth for answers in pairing.answers]
    changed = int((pairing.answers[0] != pairing.answers[1])[of_old].sum())
    counts = count_flips(right[0][of_old], right[1][of_old])
    rates = flip_rates(counts, changed)
    scores = [score(pairing, which, chosen) for which in (0, 1)]
    identical = identical or same_content(pairing)
    if same_answers(pairing) and not identical:
        warnings.append(
            f"old and new answer all {len(pairing.ids):,} samples alike, though they are not known to be one model"
        )
    warnings += doubts(counts, len(old.classes or chosen))

    flipped = of_old & right[0] & ~right[1]
    truth, answer = pairing.truth[flipped], pairing.answers[1][flipped]
    confidence = [None if s is None else s.confidence[flipped] for s in scores]
    kept = of_old & right[0]
    assert rates.nfr.value is not None
    assert rates.pfr.value is not None
    assert rates.churn.value is not None
    assert rates.nfr.ci95 is not None
    return FlipReport(
        n=len(pairing.ids),
        n_old=int(of_old.sum()),
        counts=counts,
        nfr=rates.nfr.value,
        pfr=rates.pfr.value,
        rel_nfr=rates.rel_nfr.value,
        nfi=rates.nfi.value,
        lost=rates.lost.value,
        churn=rates.churn.value,
        old=_summarise(pairing, 0, right[0], of_old, scores[0]),
        new=_summarise(pairing, 1, right[1], of_old, scores[1]),
        nfr_ci95=rates.nfr.ci95,
        mcnemar_p=mcnemar(counts),
        identical=identical,
        unfinished=list(unfinished),
        gate=check_gate(counts, limits, identical=identical, unfinished=unfinished),
        rates=rates,
        er_difference=Difference(
            value=(counts.negative_flips - counts.positive_flips) / counts.total,
            ci95=error_difference(counts),
        ),
        equivalence=_equivalence(counts, margin, limits.confidence or 0.95),
        noise_floor=_noise_floor(pairing, right, of_old) if noise_floor is not None else None,
        by_confidence=flips_by_confidence(scores[0].confidence[kept], flipped[kept]) if scores[0] else None,
        destinations=destinations(answer, is_old),
        margins=_margins(scores, of_old),
        bias_sweep=_sweeps(pairing, right, of_old, scores[1], chosen, baseline),
        per_class=flips_by_class(
            pairing.truth[of_old],
            pairing.answers[1][of_old],
            right[0][of_old],
            right[1][of_old],
            pairing.vocabulary,
        ),
        pairs=flips_by_pair(truth, answer, is_old, pairing.vocabulary),
        takers=flips_by_answer(answer, is_old, pairing.vocabulary),
        worst_flips=worst_flips(
            pairing.ids[flipped],
            truth,
            answer,
            is_old,
            pairing.vocabulary,
            confidence[0],
            confidence[1],
            worst,
        ),
        warnings=warnings,
    )


def _summarise(
    pairing: Pairing, which: int, right: BoolArray, of_old: BoolArray, scores: Scores | None
) -> ModelSummary:
    model = pairing.models[which]
    wrong = ~right
    errors = Errors(
        old_classes=rate(int(wrong[of_old].sum()), int(of_old.sum())),
        new_classes=rate(int(wrong[~of_old].sum()), int((~of_old).sum())),
        all_classes=rate(int(wrong.sum()), wrong.size),
    )
    calibration = None
    if scores is not None and model.classes is not None:
        known = pairing.among(model.classes)[pairing.truth]
        calibration = calibrate(scores.confidence[known], right[known])
    assert errors.old_classes.value is not None
    assert errors.all_classes.value is not None
    return ModelSummary(
        name=model.name,
        classes=None if model.classes is None else len(model.classes),
        er_old_classes=errors.old_classes.value,
        er_new_classes=errors.new_classes.value,
        er_all=errors.all_classes.value,
        ece=calibration.ece if calibration else None,
        aece=calibration.aece if calibration else None,
        errors=errors,
        reliability=calibration.bins if calibration else None,
    )


def _equivalence(counts: Counts, margin: float | None, confidence: float) -> Equivalence | None:
    interval = wilson(counts.negative_flips, counts.total, confidence)
    if margin is None or interval is None:
        return None
    return Equivalence(margin=margin, confidence=confidence, ci=interval, below=below(interval, margin))


def _check_retrained(old: Predictions, third: Predictions) -> None:
    """The noise floor is what training the old model again flips: a model of other classes flips for their sake."""
    if old.classes is None or third.classes is None or set(old.classes) == set(third.classes):
        return
    more, fewer = sorted(set(third.classes) - set(old.classes)), sorted(set(old.classes) - set(third.classes))
    parts = [f"also knows {first(more)}"] if more else []
    parts += [f"does not know {first(fewer)}"] if fewer else []
    raise UsageError(
        f"--noise-floor {third.name}: {' and '.join(parts)}, against the classes of {old.name}; "
        "name another training of the old model, on the same classes with another seed"
    )


def _noise_floor(pairing: Pairing, right: list[BoolArray], of_old: BoolArray) -> NoiseFloor:
    changed = int((pairing.answers[0] != pairing.answers[2])[of_old].sum())
    counts = count_flips(right[0][of_old], right[2][of_old])
    rates = flip_rates(counts, changed)
    return NoiseFloor(
        name=pairing.models[2].name,
        same_classes=pairing.models[0].classes is not None and pairing.models[2].classes is not None,
        nfr=rates.nfr,
        rel_nfr=rates.rel_nfr,
        er_old_classes=counts.new_wrong / counts.total,
    )


def _margins(scores: list[Scores | None], of_old: BoolArray) -> Margins | None:
    groups: list[Group] = []
    if scores[0] is not None:
        groups.append(("old", "old classes", scores[0].margin[of_old]))
    if scores[1] is not None:
        groups.append(("new", "old classes", scores[1].margin[of_old]))
        groups.append(("new", "new classes", scores[1].margin[~of_old]))
    return margin_summary(groups)


def _sweeps(
    pairing: Pairing,
    right: list[BoolArray],
    of_old: BoolArray,
    new_scores: Scores | None,
    old_classes: frozenset[str],
    baseline: Predictions | None,
) -> list[SweepCurve]:
    new_error = float((~right[1]).mean())
    candidates: list[tuple[str, bool, Scores | None]] = [(pairing.models[1].name, False, new_scores)]
    if baseline is not None:
        last = len(pairing.models) - 1
        candidates.append((baseline.name, True, score(pairing, last, old_classes)))
    curves = [
        sweep_bias(name, "baseline" if other else "new", scores, pairing.truth, of_old, right[0], new_error)
        for name, other, scores in candidates
        if scores is not None
    ]
    return [curve for curve in curves if curve is not None]
