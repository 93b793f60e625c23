"""How often whole calls of `adjust`, `train-mpt` and `tune` break their budget of flips, on made-up logits.

python -m tools.best_epoch_coverage

The epoch, the bias, k and the trial are all chosen on the validation samples that the budget is tested on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from mptctl.errors import GateFailed, UsageError
from mptctl.evaluation.bias.choice import Budget, choose_bias
from mptctl.evaluation.bias.validation_samples import ValidationSamples
from mptctl.evaluation.statistics import most_within, rate
from mptctl.models.records import BiasPath
from mptctl.recipe.validation import validate_method
from mptctl.training.bias_control import plan_bias_control
from mptctl.tune.choice import choose
from mptctl.tune.tune_report import Trial

CLASSES, POOL = 8, 20_000
# Parts of the spread of a logit that are each epoch's own: epochs that are nearly one model, and independent ones.
OWN_PARTS = (0.03, 0.3, 1.0)
BUDGETS = (0.08, 0.12, 0.16)
NEW_CLASSES = (4, 1)
# By how much new classes lead before anything is done about it, and how much of that each 1 of k takes back.
LEAD, OF_K = 1.0, 0.3
# What `tune` tries here, in each of two series.
TRIED_K = (0.0, 1.0, 2.0, 4.0, 8.0)
DISTANCES = ("kl", "lm")


@dataclass(frozen=True)
class Calls:
    """What came of many calls, each with a validation part of its own.

    Attributes:
        draws: calls.
        written: calls that met the budget on it.
        broken: of these, how many exceed the budget on the pool.
    """

    draws: int
    written: int
    broken: int


class Rates(NamedTuple):
    """Errors and flips of a model over the pool, sample by sample; (N,) each."""

    wrong: NDArray[np.bool_]
    flips: NDArray[np.bool_]


# Whether what a call wrote breaks the budget on the pool, by the (n,) rows of its validation part and the budget; None:
# it wrote nothing.
Call = Callable[[NDArray[np.int64], float], bool | None]


def main() -> int:
    """Print a line for each command, kind of epochs and budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--own", type=float, nargs="+", default=OWN_PARTS, help="parts of a logit's variance")
    parser.add_argument("--power", action="store_true", help="what dividing costs, and holding out, instead")
    given = parser.parse_args()
    if given.power:
        say_power()
        return 0
    say("command    new classes  own part  budget, %  written  broken  of calls, % (standard error)")
    for new, own in product(NEW_CLASSES, given.own):
        for name, call in calls_of(given.epochs, own, new).items():
            for budget in BUDGETS:
                found = count_calls(call, budget, given.samples, given.draws)
                share = found.broken / found.draws
                error = np.sqrt(share * (1 - share) / found.draws)
                say(
                    f"{name:<9}  {new:>11}  {own:>8.2f}  {100 * budget:>9.0f}  {found.written:>7,}  "
                    f"{found.broken:>6,}  {100 * share:>9.2f} ({100 * error:.2f})"
                )
    return 0


def say_power() -> None:
    """Print the largest true NFR at which most validation parts meet a budget, for each way to count `best.pt`."""
    say("of old classes  budget, %  not counted, %  of 10 epochs  of 30  of 100  on one half  on two thirds")
    for n, budget in ((300, 0.08), (1000, 0.04), (2500, 0.02), (5000, 0.02)):
        divided = [largest_met(Budget(max_nfr=budget, epochs=epochs), n) for epochs in (1, 10, 30, 100)]
        tested = [largest_met(Budget(max_nfr=budget), part) for part in (n // 2, 2 * n // 3)]
        figures = "  ".join(f"{100 * nfr:.2f}" for nfr in (*divided, *tested))
        say(f"{n:>14,}  {100 * budget:>9g}  {figures}")


def largest_met(budget: Budget, n: int, part: float = 0.8) -> float:
    """The largest true NFR at which that part of validation parts of n samples of old classes meets a budget."""
    assert budget.max_nfr is not None
    most = most_within(budget.max_nfr, n, budget.level())
    # The rate at which P(X <= most) is the part: a quantile of the Beta distribution.
    return float(beta.ppf(1 - part, most + 1, n - most))


def calls_of(epochs: int, own: float, new: int) -> dict[str, Call]:
    """The three commands on models of one kind; see `made_up_epochs`."""
    return {
        "adjust": adjust_call(made_up_epochs(epochs, own, new)),
        "train-mpt": train_call(made_up_epochs(epochs, own, new)),
        "tune": tune_call(epochs, own, new),
    }


def made_up_epochs(
    epochs: int, own: float, new: int, lead: float = LEAD, seed: int = 0
) -> list[ValidationSamples]:
    """The logits of some epochs over one pool; new classes lead by too much.

    Args:
        epochs: how many.
        own: part of the variance of a logit that is each epoch's own; 1 for independent epochs.
        new: new classes of all `CLASSES`.
        lead: of the new classes.
        seed: of what is each epoch's own; the rest is the same for all.
    """
    rng, rng_of_own = np.random.default_rng(0), np.random.default_rng([1, seed])
    truth, is_new = rng.integers(0, CLASSES, POOL), np.arange(CLASSES) >= CLASSES - new
    of_old = ~is_new[truth]
    old_right = of_old & (rng.random(POOL) < 0.9)
    signal = 2.5 * (np.arange(CLASSES) == truth[:, None]) + lead * is_new
    common = signal + np.sqrt(1 - own) * rng.normal(size=(POOL, CLASSES))
    return [
        ValidationSamples(
            logits=common + np.sqrt(own) * rng_of_own.normal(size=(POOL, CLASSES)),
            truth=truth, is_new=is_new, of_old=of_old, old_right=old_right,
        )
        for _ in range(epochs)
    ]  # fmt: skip


def count_calls(call: Call, budget: float, samples: int, draws: int) -> Calls:
    """Draw validation parts, and look at what the call of each wrote."""
    results = [call(np.random.default_rng(draw).choice(POOL, samples), budget) for draw in range(draws)]
    return Calls(draws, sum(broken is not None for broken in results), sum(bool(b) for b in results))


def adjust_call(epochs: Sequence[ValidationSamples]) -> Call:
    """`adjust` of the epoch with the fewest errors on the samples that it then tests."""
    wrong = np.array([epoch.wrong(np.zeros(CLASSES)) for epoch in epochs])

    def call(rows: NDArray[np.int64], limit: float) -> bool | None:
        best = epochs[int(wrong[:, rows].sum(axis=1).argmin())]
        return _adjusted_breaks(best, rows, Budget(max_nfr=limit, epochs=len(epochs)))

    return call


def train_call(epochs: Sequence[ValidationSamples]) -> Call:
    """`train-mpt --max-nfr`: k follows the flips on the validation samples; the best of the last epochs is adjusted."""

    def call(rows: NDArray[np.int64], limit: float) -> bool | None:
        part = [epoch.rows(rows) for epoch in epochs]
        recipe = validate_method({"name": "mpt-kl", "max_nfr": 100 * limit, "k": 1.0})
        try:
            control = plan_bias_control(recipe, part[0].n_old, len(epochs), has_old_model=True)
        except UsageError:
            return None
        assert control is not None
        path, errors = BiasPath(left=(1.0,) * len(epochs)), []
        for epoch in part:
            wrong, flips = epoch.counts(OF_K * control.next_k(path) * epoch.is_new)
            path = control.extend(path, flips)
            errors.append(wrong)
        last = errors[control.fixed_from :]
        best = epochs[control.fixed_from + int(np.argmin(last))]
        taken_back = OF_K * path.epochs[-1].k * best.is_new
        trained = replace(best, logits=best.logits - taken_back)
        return _adjusted_breaks(trained, rows, Budget(max_nfr=limit, epochs=len(last)))

    return call


def tune_call(epochs: int, own: float, new: int) -> Call:
    """`tune --max-nfr` over two series of k, each trial at the epoch with the fewest errors."""
    trials: dict[str, tuple[dict[str, object], list[Rates]]] = {}
    for place, (distance, k) in enumerate(product(DISTANCES, TRIED_K)):
        states = made_up_epochs(epochs, own, new, LEAD - OF_K * k, seed=place)
        settings: dict[str, object] = {"distance": distance, "k": k}
        trials[f"{distance}-k{k:g}"] = settings, [_rates(state) for state in states]
    of_old = made_up_epochs(1, own, new)[0].of_old

    def call(rows: NDArray[np.int64], limit: float) -> bool | None:
        n_old, table, best = int(of_old[rows].sum()), [], {}
        for name, (settings, states) in trials.items():
            best[name] = min(states, key=lambda state: int(state.wrong[rows].sum()))
            error, nfr = (int(counted[rows].sum()) for counted in best[name])
            content = {"name": name, "settings": settings, "status": "done", "run": name}
            rates = {"val_error": rate(error, len(rows)), "val_nfr": rate(nfr, n_old)}
            table.append(Trial.model_validate({**content, **rates}))
        ranked = choose(table, rate(0, len(rows)), Budget(max_nfr=limit, epochs=epochs)).ranked
        return bool(best[ranked[0]].flips.sum() > limit * of_old.sum()) if ranked else None

    return call


def _adjusted_breaks(model: ValidationSamples, rows: NDArray[np.int64], budget: Budget) -> bool | None:
    assert budget.max_nfr is not None
    try:
        choice = choose_bias(model.rows(rows), budget)
    except GateFailed:
        return None
    return model.counts(choice.biases)[1] > budget.max_nfr * model.n_old


def _rates(model: ValidationSamples) -> Rates:
    wrong = model.wrong(np.zeros(CLASSES))
    return Rates(wrong, wrong & model.to_keep)


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
