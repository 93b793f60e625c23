"""Steps of a bias against biases that are taken off the logits themselves, at every crossing and beside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mptctl.evaluation.bias.sweep import count_steps, wrong_by_bias
from mptctl.evaluation.bias.validation_samples import ValidationSamples
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.pairing.scores import score
from mptctl.evaluation.reading.predictions import build_predictions

Logits = NDArray[np.float64]
Labels = NDArray[np.int64]
Step = tuple[int, int, int]


def steps_of(
    logits: Logits, labels: Labels, old: str, old_right: NDArray[np.bool_]
) -> tuple[list[float], list[Step]]:
    """The bias at which each step begins, and its flips and wrong answers to samples of old and of new classes."""
    ids = np.char.zfill(np.arange(len(labels)).astype(str), 6)
    classes = tuple(str(c) for c in range(logits.shape[1]))
    pairing = pair({"new": build_predictions("m", ids, labels, logits=logits, classes=classes)})
    scores = score(pairing, "new", frozenset(old))
    assert scores is not None
    answers, of_old = wrong_by_bias(scores, pairing.truth), np.isin(labels, [int(c) for c in old])
    moving = (answers.gap > 0) & np.isfinite(answers.gap)
    biases, *counts = (each.tolist() for each in count_steps(answers, moving, of_old, of_old & old_right))
    return biases, list(zip(*counts, strict=True))


def steps_of_samples(
    logits: Logits, labels: Labels, old: str, old_right: NDArray[np.bool_]
) -> tuple[list[float], list[Step]]:
    """The same of validation samples, whose answers are those of logits in memory."""
    columns = [int(c) for c in old]
    is_new, of_old = ~np.isin(np.arange(logits.shape[1]), columns), np.isin(labels, columns)
    found = ValidationSamples(logits, labels, is_new, of_old, old_right).steps()
    rows = zip(found.flips.tolist(), found.wrong_old.tolist(), found.wrong_new.tolist(), strict=True)
    return found.biases.tolist(), list(rows)


def counts(logits: Logits, labels: Labels, old: str, old_right: NDArray[np.bool_], bias: float) -> Step:
    """The counts of `Step` by taking the bias off the logits."""
    columns = [int(c) for c in old]
    biased = logits - bias * ~np.isin(np.arange(logits.shape[1]), columns)
    wrong, of_old = biased.argmax(axis=1) != labels, np.isin(labels, columns)
    return (wrong & old_right & of_old).sum(), (wrong & of_old).sum(), (wrong & ~of_old).sum()


def test_by_hand() -> None:
    # Columns: old 0, old 1, new 2. Gaps of the new class over the best old one: 4, 2, -1, 1.
    logits = np.array([[1.0, 0.0, 5.0], [0.0, 1.0, 3.0], [3.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
    biases, steps = steps_of(logits, np.array([0, 1, 0, 2]), "01", np.ones(4, dtype=bool))
    # At 1 the sample of the new class is lost, at 2 and at 4 a flipped one comes back.
    assert biases == [0, 1, 2, 4]
    assert steps == [(2, 2, 0), (2, 2, 1), (1, 1, 1), (0, 0, 1)]


def test_a_step_between_two_coarse_ones_is_not_missed() -> None:
    """One gap of 100 made equal steps of 2.5: the samples that cross at 1.4 were seen together with those at 1.5."""
    gaps = np.array([100.0] * 10 + [1.4] * 5 + [1.5] * 5)
    logits = np.stack([np.zeros(20), gaps], axis=1)
    labels = np.array([1] * 10 + [0] * 5 + [1] * 5)
    biases, steps = steps_of(logits, labels, "0", np.ones(20, dtype=bool))
    assert [bias for bias, step in zip(biases, steps, strict=True) if step == (0, 0, 0)] == [1.4]


# Whole quarters, whose differences are exact, with ties and classes that are ruled out.
LOGIT = st.sampled_from([-np.inf, -16.0, -0.25, 0.0, 0.25, 0.5, 1.0, 16.0])


@st.composite
def tables(draw: st.DrawFn) -> tuple[Logits, Labels, str, NDArray[np.bool_]]:
    n, c = draw(st.integers(1, 8)), draw(st.integers(2, 4))
    logits = np.array(draw(st.lists(st.lists(LOGIT, min_size=c, max_size=c), min_size=n, max_size=n)))
    logits[np.isinf(logits).all(axis=1), draw(st.integers(0, c - 1))] = 0.25
    old = draw(st.permutations(range(c)))[: draw(st.integers(1, c - 1))]
    labels = np.array(
        draw(st.lists(st.integers(-1, c - 1), min_size=n, max_size=n))
    )  # -1: a class of neither
    labels[0] = old[0]
    old_right = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    return logits, labels, "".join(map(str, old)), old_right


@pytest.mark.parametrize("find", [steps_of, steps_of_samples])
@given(table=tables())
def test_every_step_is_what_its_biases_do(
    find: Callable[..., tuple[list[float], list[Step]]], table: tuple[Logits, Labels, str, NDArray[np.bool_]]
) -> None:
    """Each step against biases inside it; at a crossing itself two logits are equal."""
    biases, steps = find(*table)
    for bias, end, step in zip(biases, [*biases[1:], biases[-1] + 1], steps, strict=True):
        assert counts(*table, (bias + end) / 2 if bias else 0.0) == step
    # No bias does anything that no step says, and more bias never flips more.
    assert {counts(*table, bias) for bias in [0.0, *np.arange(0.125, 34, 0.25)]} <= set(steps)
    assert steps == sorted(steps, key=lambda step: -step[0])
