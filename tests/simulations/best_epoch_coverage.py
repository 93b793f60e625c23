"""Count how often calls of `adjust`, `train-mpt` and `tune` break their budget of flips, on made-up logits.

python -m tests.simulations.best_epoch_coverage

Each call chooses the epoch, the bias, k or the trial on the validation samples that its budget is tested on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
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
from tests.simulations.table import Share, Table, percent

CLASSES, POOL = 8, 20_000
# Parts of a logit's variance that each epoch has for itself: from nearly one model to independent epochs.
OWN_PARTS = (0.03, 0.3, 1.0)
# Limits on NFR, as fractions.
BUDGETS = (0.08, 0.12, 0.16)
# Numbers of new classes among all `CLASSES`.
NEW_CLASSES = (4, 1)
# Logits by which new classes lead without MPT, and what each 1 of k takes off that.
LEAD, OF_K = 1.0, 0.3
# The trials of `tune`: each k with each distance.
TRIED_K = (0.0, 1.0, 2.0, 4.0, 8.0)
DISTANCES = ("kl", "lm")


class Calls(NamedTuple):
    """Of many calls, those that met the budget on their validation part and so wrote a model; of these, those whose
    model exceeds the budget on the pool."""

    written: int
    broken: int


class PoolFlips(NamedTuple):
    """Wrong predictions and negative flips of a model on the samples of the pool, (POOL,) each."""

    wrong: NDArray[np.bool_]
    flips: NDArray[np.bool_]


# A call takes the (n,) rows of its validation part and the limit on NFR. It returns whether the model that it writes
# exceeds the limit on the pool; None where it writes none.
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
        print_power()
        return 0
    table = Table(
        "command", "new classes", "own part", "budget, %", "written", "broken", "of calls, % (standard error)"
    )
    for new, own in product(NEW_CLASSES, given.own):
        for name, call in make_calls(given.epochs, own, new).items():
            for budget in BUDGETS:
                found = count_calls(call, budget, given.samples, given.draws)
                share = Share(found.broken, given.draws)
                table.row(name, new, own, percent(budget, 0), found.written, found.broken, share)
    return 0


def print_power() -> None:
    """Print the largest true NFR at which 80 % of validation parts meet a budget, for each way to count `best.pt`.

    The ways divide the confidence over epochs, or test the budget on a part of the samples alone.
    """
    table = Table(
        "of old classes", "budget, %", "not counted, %", "of 10 epochs", "of 30", "of 100", "on one half",
        "on two thirds",
    )  # fmt: skip
    for n, budget in ((300, 0.08), (1000, 0.04), (2500, 0.02), (5000, 0.02)):
        divided = [largest_met(Budget(max_nfr=budget, epochs=epochs), n) for epochs in (1, 10, 30, 100)]
        tested = [largest_met(Budget(max_nfr=budget), part) for part in (n // 2, 2 * n // 3)]
        table.row(n, percent(budget, 0), *map(percent, (*divided, *tested)))


def largest_met(budget: Budget, n: int, share: float = 0.8) -> float:
    """The largest true NFR at which a share of validation parts meets a budget.

    Args:
        budget: a limit on NFR.
        n: samples of old classes in a validation part.
        share: of validation parts, 0 to 1.
    """
    assert budget.max_nfr is not None
    most_flips = most_within(budget.max_nfr, n, budget.level())
    # The rate p at which P(flips <= most_flips) is the share, for Binomial(n, p): a quantile of a Beta distribution.
    return float(beta.ppf(1 - share, most_flips + 1, n - most_flips))


def make_calls(epochs: int, own: float, new: int) -> dict[str, Call]:
    """The calls of the three commands by name; the arguments are those of `made_up_epochs`."""
    return {
        "adjust": adjust_call(made_up_epochs(epochs, own, new)),
        "train-mpt": train_call(made_up_epochs(epochs, own, new)),
        "tune": tune_call(epochs, own, new),
    }


def made_up_epochs(
    epochs: int, own: float, new: int, lead: float = LEAD, seed: int = 0
) -> list[ValidationSamples]:
    """Make up the logits of some epochs of a training, all on one pool of `POOL` samples.

    Args:
        epochs: number of epochs.
        own: part of a logit's variance that each epoch has for itself; 1 for independent epochs.
        new: number of new classes among all `CLASSES`.
        lead: what is added to the logits of new classes.
        seed: of the epochs' own part; all else is the same for any seed.
    """
    rng, own_rng = np.random.default_rng(0), np.random.default_rng([1, seed])
    truth, is_new = rng.integers(0, CLASSES, POOL), np.arange(CLASSES) >= CLASSES - new
    of_old = ~is_new[truth]
    old_right = of_old & (rng.random(POOL) < 0.9)
    signal = 2.5 * (np.arange(CLASSES) == truth[:, None]) + lead * is_new
    common = signal + np.sqrt(1 - own) * rng.normal(size=(POOL, CLASSES))
    return [
        ValidationSamples(
            logits=common + np.sqrt(own) * own_rng.normal(size=(POOL, CLASSES)),
            truth=truth, is_new=is_new, of_old=of_old, old_right=old_right,
        )
        for _ in range(epochs)
    ]  # fmt: skip


def count_calls(call: Call, budget: float, samples: int, draws: int) -> Calls:
    """Make a call for each of many validation parts drawn from the pool, and count the results.

    Args:
        call: to make.
        budget: limit on NFR, a fraction.
        samples: in a validation part.
        draws: number of validation parts.
    """
    results = [call(np.random.default_rng(draw).choice(POOL, samples), budget) for draw in range(draws)]
    written = [is_broken for is_broken in results if is_broken is not None]
    return Calls(len(written), sum(written))


def adjust_call(epochs: Sequence[ValidationSamples]) -> Call:
    """A call of `adjust` for the epoch with the fewest errors on the validation part."""
    wrong = np.array([epoch.answers.at(0.0) for epoch in epochs])

    def call(rows: NDArray[np.int64], limit: float) -> bool | None:
        best = epochs[int(wrong[:, rows].sum(axis=1).argmin())]
        return _adjusted_breaks(best, rows, Budget(max_nfr=limit, epochs=len(epochs)))

    return call


def train_call(epochs: Sequence[ValidationSamples]) -> Call:
    """A call of `train-mpt --max-nfr`, which moves k after each epoch by the flips on the validation part.

    Of the last epochs, whose k is fixed, the one with the fewest errors is adjusted. Nothing is written where
    the validation part is too small for the budget.
    """

    def call(rows: NDArray[np.int64], limit: float) -> bool | None:
        part = [epoch.rows(rows) for epoch in epochs]
        recipe = validate_method({"name": "mpt-kl", "max_nfr": 100 * limit, "k": 1.0})
        try:
            control = plan_bias_control(recipe, part[0].n_old, len(epochs), has_old_model=True)
        except UsageError:
            return None
        path, errors = BiasPath(left=(1.0,) * len(epochs)), []
        for epoch in part:
            wrong, flips = epoch.counts(OF_K * control.next_k(path))
            path = control.extend(path, flips)
            errors.append(wrong)
        last_errors = errors[control.fixed_from :]
        best = epochs[control.fixed_from + int(np.argmin(last_errors))]
        shift = OF_K * path.epochs[-1].k * best.is_new
        trained = replace(best, logits=best.logits - shift)
        return _adjusted_breaks(trained, rows, Budget(max_nfr=limit, epochs=len(last_errors)))

    return call


class _TrialEpochs(NamedTuple):
    """The settings of a trial of `tune`, and its epochs on the pool."""

    settings: dict[str, object]
    epochs: list[PoolFlips]


def tune_call(epochs: int, own: float, new: int) -> Call:
    """A call of `tune --max-nfr` over two series of k, each trial at its epoch with the fewest errors."""
    trials: dict[str, _TrialEpochs] = {}
    for seed, (distance, k) in enumerate(product(DISTANCES, TRIED_K)):
        samples = made_up_epochs(epochs, own, new, LEAD - OF_K * k, seed=seed)
        trials[f"mpt-{distance}-k{k:g}"] = _TrialEpochs(
            {"method.name": f"mpt-{distance}", "method.k": k}, [_pool_flips(epoch) for epoch in samples]
        )
    of_old = made_up_epochs(1, own, new)[0].of_old

    def call(rows: NDArray[np.int64], limit: float) -> bool | None:
        n_old = int(of_old[rows].sum())
        records, best_epochs = [], {}
        for name, (settings, tried) in trials.items():
            best = min(tried, key=lambda epoch: int(epoch.wrong[rows].sum()))
            best_epochs[name] = best
            errors, flips = int(best.wrong[rows].sum()), int(best.flips[rows].sum())
            content = {"name": name, "settings": settings, "status": "done", "run": name}
            rates = {"val_error": rate(errors, len(rows)), "val_nfr": rate(flips, n_old)}
            records.append(Trial.model_validate({**content, **rates}))
        ranked = choose(records, rate(0, len(rows)), Budget(max_nfr=limit, epochs=epochs)).ranked
        if not ranked:
            return None
        return bool(best_epochs[ranked[0]].flips.sum() > limit * of_old.sum())

    return call


def _adjusted_breaks(model: ValidationSamples, rows: NDArray[np.int64], budget: Budget) -> bool | None:
    """Adjust a model on rows of the pool; whether it then exceeds the budget on the pool, None if none meets it."""
    try:
        choice = choose_bias(model.rows(rows), budget)
    except GateFailed:
        return None
    _, flips = model.counts(choice.bias)
    return flips > budget.max_nfr * model.n_old


def _pool_flips(model: ValidationSamples) -> PoolFlips:
    wrong = model.answers.at(0.0)
    return PoolFlips(wrong, wrong & model.to_keep)


if __name__ == "__main__":
    sys.exit(main())
