"""The noise floor: what another training of the old model would flip by itself."""

from __future__ import annotations

from mptctl.errors import UsageError, option
from mptctl.evaluation.flip_report import NoiseFloor
from mptctl.evaluation.flips import flip_rates
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.predictions import Predictions


def refuse_other_classes(old: Predictions, third: Predictions) -> None:
    """Refuse a noise floor whose classes differ from the old model's: its flips would not be noise.

    Args:
        old: predictions of the old model.
        third: predictions of the noise floor, which should be another training of the old model.

    Raises:
        UsageError: both models name their classes, and the classes differ.
    """
    if old.classes is None or third.classes is None or set(old.classes) == set(third.classes):
        return
    more, fewer = sorted(set(third.classes) - set(old.classes)), sorted(set(old.classes) - set(third.classes))
    parts = [f"also knows {first(more)}"] if more else []
    parts += [f"does not know {first(fewer)}"] if fewer else []
    raise UsageError(
        f"{option('noise-floor')} {third.name}: {' and '.join(parts)}, against the classes of {old.name}; "
        "name another training of the old model, on the same classes with another seed"
    )


def measure_noise_floor(answers: PairedAnswers) -> NoiseFloor | None:
    """Measure what another training of the old model flips; None where `answers` has no noise floor."""
    models = answers.pairing.models
    if "noise_floor" not in models:
        return None
    counts = answers.counts("noise_floor")
    rates = flip_rates(counts, answers.changed("noise_floor"))
    return NoiseFloor(
        name=models["noise_floor"].name,
        same_classes=models["old"].classes is not None and models["noise_floor"].classes is not None,
        nfr=rates.nfr,
        rel_nfr=rates.rel_nfr,
        er_old_classes=counts.new_wrong / counts.total,
    )
