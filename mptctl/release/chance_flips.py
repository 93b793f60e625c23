"""Compare a budget of flips with the noise floor on the validation part, before or after a training."""

from __future__ import annotations

from mptctl.evaluation.bias.choice import Budget
from mptctl.evaluation.noise_floor import measure_noise_floor, refuse_other_classes
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.pairing.sanity import idle_model_warnings
from mptctl.inference.named_models import load_predictions
from mptctl.names import Session


def below_chance(budget: Budget | None, answers: PairedAnswers) -> list[str]:
    """Warn of a budget below the NFR of another training of the old model (the noise floor).

    Args:
        budget: its limit on NFR is compared; None, or no such limit: nothing to compare.
        answers: predictions on the validation part, of the noise floor too if one was given.

    Returns:
        A warning, or warnings that the noise floor is the old or the new model itself. Empty without a noise
        floor and where the budget is not below it.

    Raises:
        UsageError: the noise floor has other classes than the old model.
    """
    models = answers.pairing.models
    if "noise_floor" not in models:
        return []
    refuse_other_classes(models["old"], models["noise_floor"])
    idle_warnings = idle_model_warnings(answers.pairing)
    if idle_warnings:
        return idle_warnings
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
    """Warn as `below_chance` does, before the new model is trained; both models predict the validation part.

    Args:
        budget: of the training.
        old: the old model, a run, as `load_predictions` takes it.
        noise_floor: another training of the old model, likewise.
        session: where the models are and compute.

    Raises:
        UsageError: the noise floor has other classes than the old model.
        MptctlError: see `load_predictions`.
    """
    names = {"old": old, "noise_floor": noise_floor}
    loaded = load_predictions(names, session, part="val")
    assert loaded.split is not None  # the old model teaches, so that it is a run
    answers = PairedAnswers(pair(loaded.models), frozenset(loaded.split.classes.old))
    return below_chance(budget, answers)
