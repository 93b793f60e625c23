"""Arrays of labels and answers, and their comparison, for tests of `import mptctl`."""

from __future__ import annotations

from typing import Any

import numpy as np

import mptctl

# By hand: of four samples of cat and dog, two are right in both, the second is lost, the fourth is won.
LABELS = ["cat", "cat", "dog", "dog", "emu"]
OLD = ["cat", "cat", "dog", "cat", "dog"]
NEW = ["cat", "dog", "dog", "dog", "emu"]
OLD_CLASSES = ["cat", "dog"]


# The same as numbers for a network in a trainer; one-hot rows, whose largest input is the answer.
NUMBERS, OLD_NUMBERS = ([["cat", "dog", "emu"].index(name) for name in names] for names in (LABELS, OLD))
INPUTS = np.eye(3, dtype=np.float32)[[0, 1, 1, 1, 2]]


def by_hand() -> mptctl.Report:
    return mptctl.evaluate(LABELS, old=OLD, new=NEW, old_classes=OLD_CLASSES)


def large() -> dict[str, Any]:
    """Logits of 300 samples, old ones of 4 classes and new ones of 6."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 6, 300)
    old, new = rng.normal(size=(300, 4)), rng.normal(size=(300, 6))
    known = np.flatnonzero(labels < 4)
    old[known, labels[known]] += 2
    new[np.arange(300), labels] += 2
    return {"labels": labels, "old": old.astype(np.float32), "new": new.astype(np.float32)}


def evaluate_arrays(**keys: Any) -> mptctl.Report:
    return mptctl.evaluate(keys.pop("labels"), **keys)
