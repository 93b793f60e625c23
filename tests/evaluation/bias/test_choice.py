"""The choice of a bias, against every bias tried one by one, and what is said where no bias meets a budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from mptctl.errors import DataError, GateFailed
from mptctl.evaluation.bias.choice import Budget, barely_met_warning, choose_bias
from mptctl.evaluation.bias.validation_samples import ValidationSamples
from mptctl.evaluation.statistics import upper_bounds
from tests.evaluation.made_up import made_up

# No shift heals a flip between old classes, and a larger k hardly does.
TRAIN_BY_MPT = "train an update with fewer flips between old classes (by MPT, if it was trained plainly)"


def by_one_bias(samples: ValidationSamples, bias: float) -> tuple[int, int]:
    """Errors and flips with one bias for all new classes, by the definition."""
    answers = (samples.logits - bias * samples.is_new).argmax(axis=1)
    wrong = answers != samples.truth
    return int(wrong.sum()), int((wrong & samples.of_old & samples.old_right).sum())


def every_bias(samples: ValidationSamples) -> list[float]:
    """0, and a bias between any two differences of logits."""
    gaps = np.unique(samples.logits[:, :, None] - samples.logits[:, None, :])
    gaps = gaps[gaps > 0]
    return [0.0, *((gaps + np.append(gaps[1:], gaps[-1] + 1)) / 2)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_least_error_within_the_bound_is_what_trying_all_biases_finds(seed: int, confidence: float) -> None:
    samples = made_up(80, seed, old=3, new=1)
    n = samples.n_old
    tried = [by_one_bias(samples, bias) for bias in every_bias(samples)]
    # The exact bound by its definition: the rate at which so few flips come up with (1 - confidence) / 2.
    reach = float(upper_bounds(np.array([tried[-1][1]]), n, confidence)[0])
    for budget in (reach + 0.001, 0.1, 0.2):
        meets = [each for each in tried if binom.cdf(each[1], n, budget) <= (1 - confidence) / 2]
        if not meets:
            with pytest.raises(GateFailed):
                choose_bias(samples, Budget(max_nfr=budget, confidence=confidence))
            continue
        choice = choose_bias(samples, Budget(max_nfr=budget, confidence=confidence))
        assert choice.level == confidence
        errors, flips = samples.counts(choice.bias)
        assert (errors, flips) == min(meets)
        assert flips == choice.line.steps.flips[choice.step]
        assert choice.line.bounds[choice.step] <= budget


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("points", [0.0, 0.02, 0.1])
def test_least_flips_within_an_error_budget_is_what_trying_all_biases_finds(seed: int, points: float) -> None:
    samples = made_up(80, seed, old=3, new=1)
    tried = [by_one_bias(samples, bias) for bias in every_bias(samples)]
    most = tried[0][0] + points * len(samples)
    errors, flips = samples.counts(choose_bias(samples, Budget(max_er_increase=points)).bias)
    assert (flips, errors) == min((f, e) for e, f in tried if e <= most + 1e-9)


def test_clopper_pearson_is_the_rate_at_which_so_few_come_up_rarely() -> None:
    for count, total, level in [(0, 10, 0.95), (3, 50, 0.9), (49, 50, 0.975)]:
        (bound,) = upper_bounds(np.array([count]), total, level)
        assert binom.cdf(count, total, bound) == pytest.approx((1 - level) / 2)
    assert upper_bounds(np.array([0, 50]), 50, 0.95).tolist() == [pytest.approx(1 - 0.025 ** (1 / 50)), 1.0]


def test_a_model_that_meets_the_budget_and_cannot_be_improved_stays_as_it_is() -> None:
    samples = made_up(400, 0)
    logits = samples.logits.copy()
    logits[np.arange(400), samples.truth] += 100
    choice = choose_bias(replace(samples, logits=logits), Budget(max_nfr=0.1))
    assert choice.bias == 0


def test_without_new_classes_there_is_nothing_to_take_off() -> None:
    samples = made_up(400, 0, new=0, old=4)
    assert choose_bias(samples, Budget(max_nfr=0.9)).bias == 0
    with pytest.raises(GateFailed, match="least NFR that can be had"):
        choose_bias(samples, Budget(max_nfr=0.01))


def test_what_cannot_be_met_names_the_least_that_can_be_had() -> None:
    samples = made_up(80, 0, old=3, new=1)
    _, flips = by_one_bias(samples, 1e6)
    n = samples.n_old
    (bound,) = upper_bounds(np.array([flips]), n, 0.95)
    with pytest.raises(GateFailed) as refused:
        choose_bias(samples, Budget(max_nfr=float(bound) - 1e-6))
    assert (
        f"{100 * flips / n:.2f} % ({flips} of {n} validation pictures of old classes), at most {100 * bound:.2f} %"
    ) in str(refused.value)
    assert str(refused.value).endswith(f"; raise the budget, hold out more pictures, or {TRAIN_BY_MPT}")
    assert choose_bias(samples, Budget(max_nfr=float(bound))).line.steps.flips.min() == flips
    with pytest.raises(GateFailed, match="the least that can be had is"):
        choose_bias(samples, Budget(max_er_increase=-0.9))


def test_no_sample_of_an_old_class() -> None:
    samples = made_up(50, 0)
    with pytest.raises(DataError, match="no picture of an old class"):
        choose_bias(samples.rows(np.flatnonzero(~samples.of_old)), Budget(max_nfr=0.1))


def test_a_step_too_narrow_for_single_precision_is_not_chosen() -> None:
    """Between 1 and 1 + 1e-7 the error is least, but a folded bias would not hit that."""
    logits = np.array([[0.0, 1.0], [0.0, 1.0 + 1e-7], [0.0, 3.0]])
    samples = ValidationSamples(
        logits, np.array([0, 1, 1]), np.array([False, True]), np.array([True, False, False]),
        np.ones(3, dtype=bool),
    )  # fmt: skip
    choice = choose_bias(samples, Budget(max_er_increase=0.0))
    folded = (logits.astype(np.float32) - np.float32(choice.bias) * samples.is_new).argmax(axis=1)
    assert int((folded != samples.truth).sum()) == samples.counts(choice.bias)[0]


def test_a_budget_near_the_least_that_can_be_reached_is_said() -> None:
    samples = made_up(80, 0, old=3, new=1)
    _, flips = by_one_bias(samples, 1e6)
    n = samples.n_old
    bound = float(upper_bounds(np.array([flips]), n, 0.95)[0])
    at_the_edge, far = Budget(max_nfr=bound), Budget(max_nfr=0.6)
    said = barely_met_warning(choose_bias(samples, at_the_edge), at_the_edge)
    # As many flips as were seen are the most with which it is met: so few or fewer come up about every other time.
    assert said is not None
    assert f"({flips} of {n}): about {100 * binom.cdf(flips, n, flips / n):.0f} % of validation parts" in said
    assert said.endswith(f"; hold out more pictures, or {TRAIN_BY_MPT}")
    assert barely_met_warning(choose_bias(samples, far), far) is None
    points = Budget(max_er_increase=0.1)
    assert barely_met_warning(choose_bias(samples, points), points) is None
