"""Made-up logits of an update: old classes whose samples new classes take, as training without care does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.held_out import HeldOut


def made_up(n: int, seed: int, *, old: int = 4, new: int = 4, uneven: float = 0.0) -> HeldOut:
    """Samples whose new classes lead by too much; with `uneven`, some of them by far more than others."""
    rng = np.random.default_rng(seed)
    classes = old + new
    truth = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)) + 2.5 * (np.arange(classes) == truth[:, None])
    lead: NDArray[np.float64] = 1.0 + uneven * np.linspace(-1, 1, new)
    logits[:, old:] += lead
    of_old = truth < old
    return HeldOut(
        logits=logits.astype(np.float32).astype(np.float64),
        truth=truth,
        is_new=np.arange(classes) >= old,
        of_old=of_old,
        old_right=of_old & (rng.random(n) < 0.9),
    )
