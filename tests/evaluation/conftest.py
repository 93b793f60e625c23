"""Twenty samples small enough to count by hand: old classes a and b, new ones c and d."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mptctl.evaluation.reading.predictions import Predictions, build_predictions
from tests.evaluation.files import WRITERS

# truth, the old model's answer and confidence, the new model's answer and confidence
TABLE = """
a a .95 a .70
a a .95 a .70
a a .82 a .43
a a .82 b .70
a a .62 c .70
a b .62 a .70
a b .82 b .70
b b .95 b .70
b b .95 c .70
b b .82 b .70
b b .62 b .43
b a .62 b .70
b a .82 d .70
b b .95 b .70
c a .62 c .70
c a .82 c .70
c b .62 a .43
d b .82 d .70
d a .95 d .43
d b .95 c .70
"""


def _logits(answers: list[str], confidences: list[float], classes: str) -> np.ndarray:
    """Log-probabilities: the confidence for the answer, the rest shared evenly."""
    rest = (1 - np.array(confidences)) / (len(classes) - 1)
    logits = np.log(rest)[:, None].repeat(len(classes), axis=1)
    for row, (answer, confidence) in enumerate(zip(answers, confidences, strict=True)):
        logits[row, classes.index(answer)] = np.log(confidence)
    return logits


@pytest.fixture
def twenty() -> tuple[Predictions, Predictions]:
    """Old and new predictions of the table, with logits."""
    rows = [line.split() for line in TABLE.strip().splitlines()]
    truth, old, p_old, new, p_new = zip(*rows, strict=True)
    ids = np.array([f"s{i:02d}" for i in range(1, 21)])
    labels = np.array(truth)
    return (
        build_predictions(
            "old", ids, labels, logits=_logits(list(old), [float(p) for p in p_old], "ab"), classes=("a", "b")
        ),
        build_predictions(
            "new",
            ids,
            labels,
            logits=_logits(list(new), [float(p) for p in p_new], "abcd"),
            classes=("a", "b", "c", "d"),
        ),
    )


@pytest.fixture(params=list(WRITERS))
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A predictions file to write, of each form in turn."""
    return tmp_path / f"predictions{request.param}"
