"""A budget of flips held against the noise floor, on the validation part, before and after a training."""

from __future__ import annotations

from mptctl.evaluation.bias.choice import Budget
from mptctl.evaluation.noise_floor import measure_noise_floor, refuse_other_classes
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.pairing.sanity import warn_of_idle_models
from mptctl.inference.named_models import load_predictions
from mptctl.names import Session


def below_chance(budget: Budget | None, answers: PairedAnswers) -> list[str]:
    """Warnings where a budget is below what another training of the old model flips, or where it is no other.

    Args:
        budget: what was asked for.
        answers: of the models to the validation part, the noise floor among them where one was named.

    Raises:
        UsageError: the model that was named has other classes than the old one.
    """
    models = answers.pairing.models
    if "noise_floor" not in models:
        return []
    refuse_other_classes(models["old"], models["noise_floor"])
    if idle := warn_of_idle_models(answers.pairing):
        return idle
    floor = measure_noise_floor(answers)
    if floor is None or budget is None or budget.max_nfr is None:
        return []
    if floor.nfr.value is None or budget.max_nfr >= floor.nfr.value:
        return []
    return [
        f"--max-nfr {100 * budget.max_nfr:g}: {floor.name}, another training of the old model, flips "
        f"{100 * floor.nfr.value:.2f} % ({floor.nfr.count:,} of {floor.nfr.of:,} validation pictures of old "
        "classes) by chance alone; to stay below that costs errors on new classes"
    ]


def below_chance_before_training(
    budget: Budget,
    old: str,
    noise_floor: str,
    session: Session,
) -> list[str]:
    """The same before there is a new model.

    Args:
        budget: what was asked for.
        old, noise_floor: the models, as for `load_predictions`, whose errors it raises.
        session: where they are and where they compute.

    Raises:
        UsageError: the model that was named has other classes than the old one.
    """
    names = {"old": old, "noise_floor": noise_floor}
    found = load_predictions(names, session, part="val")
    assert found.split is not None  # the old model teaches, so that it is a run
    answers = PairedAnswers(pair(found.models), frozenset(found.split.classes.old))
    return below_chance(budget, answers)
