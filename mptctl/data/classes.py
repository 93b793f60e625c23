"""The class split: class order is always old classes first, then new ones; everything maps by class name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import CheckpointError, UsageError, some


@dataclass(frozen=True)
class ClassSplit:
    """The classes of a split: those that the old model knows, and the new ones.

    Attributes:
        names: every class name, old ones first; column i of the new model's logits is ``names[i]``.
        num_old: how many of them are old (C_old in the paper).

    Raises:
        UsageError: a name is there twice, or ``num_old`` is not between 0 and the number of classes.
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
    class_fraction: float = 1.0,
    order: str = "given",
    seed: int = 0,
) -> ClassSplit:
    """Divide a source's classes into old and new ones.

    Args:
        source_names: class names in the source's own order.
        old_fraction: part of the classes that is old, rounded down; 1.0 is an update without new classes.
        old_names: the old classes by name, in the order that the old model answers in; overrides the
            fraction.
        class_fraction: part of the source's classes that is taken, rounded down: the first ones, old ones
            among them.
        order: ``given`` takes the first classes of the source as old, ``random`` shuffles them with ``seed``.
        seed: seed of the shuffle.

    Raises:
        UsageError: a name that the source does not have, no old class at all, fewer classes than old ones, or
            an unknown order.
    """
    if order not in ("given", "random"):
        raise UsageError(f"--order {order}: unknown; use given or random")
    names = [str(name) for name in source_names]
    if old_names is not None:
        unknown = [name for name in old_names if name not in set(names)]
        if unknown:
            raise UsageError(
                f"--old-classes: {some(unknown)} "
                f"not among the source's {len(names)} classes; use their names as the source has them"
            )
        if not old_names:
            raise UsageError("--old-classes: the file names no class; write one class name a line")
        chosen = set(old_names)
        names = [*old_names, *(name for name in names if name not in chosen)]
        return ClassSplit(_taken(names, class_fraction, len(old_names)), len(old_names))
    if not 0.0 < old_fraction <= 1.0:
        raise UsageError(f"--old-fraction {old_fraction}: must be above 0 and at most 1")
    num_old = _part_of(len(names), old_fraction)
    if num_old == 0:
        raise UsageError(
            f"--old-fraction {old_fraction}: leaves no old class out of {len(names)}; use a larger one"
        )
    if order == "random":
        permutation = np.random.default_rng(seed).permutation(len(names))
        names = [names[i] for i in permutation]
    return ClassSplit(_taken(names, class_fraction, num_old), num_old)


def _taken(names: Sequence[str], fraction: float, num_old: int) -> tuple[str, ...]:
    """The first classes of an order, so many as a fraction says."""
    taken = _part_of(len(names), fraction)
    if not num_old <= taken <= len(names):
        raise UsageError(
            f"class fraction {fraction}: takes {taken} of {len(names)} classes, {num_old} of them old; use "
            "one that takes all old classes, and at most 1"
        )
    return tuple(names[:taken])


def _part_of(classes: int, fraction: float) -> int:
    return int(np.floor(classes * fraction + 1e-9))  # 0.07 * 100 is 7.000000000000001


def label_map(source_names: Sequence[str], target_names: Sequence[str]) -> NDArray[np.int64]:
    """Map labels of one class order to another, by name.

    Returns:
        (len(source_names),) index into ``target_names`` of each source class, -1 where it has none.

    >>> label_map(["cat", "dog", "fox"], ["fox", "cat"]).tolist()
    [1, -1, 0]
    """
    position = {name: i for i, name in enumerate(target_names)}
    return np.array([position.get(name, -1) for name in source_names], dtype=np.int64)


def columns_for(model_names: Sequence[str], wanted: Sequence[str], what: str) -> NDArray[np.int64]:
    """Columns of a model's logits in the order of ``wanted`` classes.

    Args:
        model_names: class names in the order of the model's logits.
        wanted: class names in the order that is needed; must be the same set.
        what: name of the model, for the message.

    Returns:
        (len(wanted),) column of the model for each wanted class.

    Raises:
        CheckpointError: the model knows other classes; the message names those that do not match.
    """
    missing = [name for name in wanted if name not in set(model_names)]
    extra = [name for name in model_names if name not in set(wanted)]
    if missing or extra:
        parts = [
            f"{verb} {some(names)}"
            for verb, names in (("does not know", missing), ("knows beside the split", extra))
            if names
        ]
        raise CheckpointError(
            f"{what}: its classes are not those of the split: it {'; it '.join(parts)}; "
            "use a model of this split, or run split with --old-classes"
        )
    return label_map(wanted, model_names)
