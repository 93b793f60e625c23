"""Divides classes into old and new ones, and maps labels between class orders by class name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import CheckpointError, UsageError, some


@dataclass(frozen=True)
class ClassSplit:
    """The classes of a split: old classes, which the old model knows, then new classes.

    Attributes:
        names: all class names, old ones first; column i of the new model's logits is of class ``names[i]``.
        num_old: number of old classes (C_old in the paper).

    Raises:
        UsageError: two classes have one name, or ``num_old`` is not between 0 and the number of classes.
    """

    names: tuple[str, ...]
    num_old: int

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            twice = sorted({name for name in self.names if self.names.count(name) > 1})
            raise UsageError(f"class names: {some(twice)} stand there twice; give every class one name")
        if not 0 <= self.num_old <= len(self.names):
            raise UsageError(f"number of old classes: {self.num_old} is not between 0 and {len(self.names)}")

    @property
    def old(self) -> tuple[str, ...]:
        """Names of the old classes, in the order of the old model's logits."""
        return self.names[: self.num_old]

    @property
    def new(self) -> tuple[str, ...]:
        """Names of the classes that only the new model knows."""
        return self.names[self.num_old :]


def split_classes(
    source_names: Sequence[str],
    *,
    old_fraction: float = 0.5,
    old_names: Sequence[str] | None = None,
    order: str = "given",
    seed: int = 0,
) -> ClassSplit:
    """Divide a source's classes into old and new ones.

    Args:
        source_names: class names in the source's own order.
        old_fraction: share of the classes that is old, rounded down; 1.0: an update without new classes.
        old_names: names of the old classes, in the order of the old model's logits; overrides
            ``old_fraction`` and ``order``.
        order: ``given`` takes the first classes of the source as old, ``random`` shuffles them with ``seed``.
        seed: seed of the shuffle.

    Raises:
        UsageError: an unknown class name or order, a fraction out of range, or no old class.
    """
    if order not in ("given", "random"):
        raise UsageError(f"--order {order}: unknown; use given or random")
    names = [str(name) for name in source_names]
    if old_names is not None:
        known = set(names)
        chosen = set(old_names)
        unknown = [name for name in old_names if name not in known]
        if unknown:
            raise UsageError(
                f"--old-classes: {some(unknown)} "
                f"not among the source's {len(names)} classes; use their names as the source has them"
            )
        if not old_names:
            raise UsageError("--old-classes: the file names no class; write one class name a line")
        new_names = [name for name in names if name not in chosen]
        return ClassSplit((*old_names, *new_names), len(old_names))
    if not 0.0 < old_fraction <= 1.0:
        raise UsageError(f"--old-fraction {old_fraction}: must be above 0 and at most 1")
    num_old = int(np.floor(len(names) * old_fraction + 1e-9))  # 0.57 * 100 is 56.99999999999999
    if num_old == 0:
        raise UsageError(
            f"--old-fraction {old_fraction}: leaves no old class out of {len(names)}; use a larger one"
        )
    if order == "random":
        permutation = np.random.default_rng(seed).permutation(len(names))
        names = [names[label] for label in permutation]
    return ClassSplit(tuple(names), num_old)


def label_map(source_names: Sequence[str], target_names: Sequence[str]) -> NDArray[np.int64]:
    """Map the labels of one class order to those of another, by class name.

    Returns:
        (len(source_names),) index of each source class in ``target_names``; -1 for a class that is not there.

    >>> label_map(["cat", "dog", "fox"], ["fox", "cat"]).tolist()
    [1, -1, 0]
    """
    position = {name: label for label, name in enumerate(target_names)}
    return np.array([position.get(name, -1) for name in source_names], dtype=np.int64)


def columns_for(model_names: Sequence[str], wanted: Sequence[str], what: str) -> NDArray[np.int64]:
    """Find the columns of a model's logits for classes in another order.

    Args:
        model_names: class names in the order of the model's logits.
        wanted: the same class names, in the order that is needed.
        what: name of the model, for the message.

    Returns:
        (len(wanted),) column of the model for each wanted class.

    Raises:
        CheckpointError: the model has other classes; the message names those that differ.
    """
    missing = [name for name in wanted if name not in set(model_names)]
    extra = [name for name in model_names if name not in set(wanted)]
    if missing or extra:
        problems = [f"does not know {some(missing)}"] if missing else []
        problems += [f"knows beside the split {some(extra)}"] if extra else []
        raise CheckpointError(
            f"{what}: its classes are not those of the split: it {'; it '.join(problems)}; "
            "use a model of this split, or run split with --old-classes"
        )
    return label_map(wanted, model_names)
