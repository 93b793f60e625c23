"""Made-up models: an update whose new classes take samples of old ones, as training without care does, and answers."""

from __future__ import annotations

import numpy as np

from mptctl.evaluation.bias.validation_samples import ValidationSamples
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.reading.predictions import Predictions, build_predictions


def made_up(n: int, seed: int, *, old: int = 4, new: int = 4) -> ValidationSamples:
    """Samples whose new classes lead by too much."""
    rng = np.random.default_rng(seed)
    classes = old + new
    truth = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)) + 2.5 * (np.arange(classes) == truth[:, None])
    logits[:, old:] += 1.0
    of_old = truth < old
    return ValidationSamples(
        logits=logits.astype(np.float32).astype(np.float64),
        truth=truth,
        is_new=np.arange(classes) >= old,
        of_old=of_old,
        old_right=of_old & (rng.random(n) < 0.9),
    )


def answers(
    name: str,
    labels: list[int],
    preds: list[int],
    order: list[int] | None = None,
    classes: tuple[str, ...] | None = None,
) -> Predictions:
    """A model that answers `preds`; ids are the places of the rows, which stand in the file in an `order`."""
    rows = np.array(order if order is not None else range(len(labels)))
    return build_predictions(name, rows, np.array(labels)[rows], np.array(preds)[rows], classes=classes)


def flip_table(both_right: int, negative: int, positive: int, both_wrong: int) -> Counts:
    """The counts of a comparison."""
    return Counts(
        both_right=both_right, negative_flips=negative, positive_flips=positive, both_wrong=both_wrong
    )
