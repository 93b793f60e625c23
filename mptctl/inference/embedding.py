"""Test pictures as a 2-dimensional embedding sees them, with the classifier that stands over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.data.split import Split
from mptctl.errors import CheckpointError
from mptctl.inference.predict import compute_features
from mptctl.models.checkpoint import Checkpoint, load_model
from mptctl.models.heads import class_directions, find_classifier
from mptctl.names import Part, Session

DIMENSIONS = 2


@dataclass(frozen=True)
class Embedding:
    """The features that a model makes of the pictures of the classes that it knows, and its classifier.

    Attributes:
        points: (N, 2) features.
        labels: (N,) true classes, as places in ``class_names``.
        weight, bias: (C, 2) and (C,) of the classifier over the C classes that the model knows.
        columns: (C,) which class each row of these is, as places in ``class_names``.
        class_names: of the split, old ones first.
        num_old: how many of them are old.
    """

    points: NDArray[Any]
    labels: NDArray[np.int64]
    weight: NDArray[Any]
    bias: NDArray[Any]
    columns: NDArray[np.int64]
    class_names: tuple[str, ...]
    num_old: int

    def answers(self, points: NDArray[Any]) -> NDArray[np.int64]:
        """(n, 2) features -> (n,) classes that the model answers there, as places in ``class_names``."""
        logits = points @ self.weight.T + self.bias
        answers: NDArray[np.int64] = self.columns[logits.argmax(axis=1)]
        return answers

    @property
    def error(self) -> float:
        """Part of the pictures that the model gets wrong."""
        return float((self.answers(self.points) != self.labels).mean())


def embed(
    checkpoints: Mapping[str, Checkpoint],
    split: Split,
    session: Session = Session(),
    *,
    part: Part = "test",
) -> dict[str, Embedding]:
    """The features of models with an embedding of two dimensions; computed in float32.

    Args:
        checkpoints: the models by name.
        split: whose pictures they see, of the classes that each knows.
        session: where they compute, and who is told how far they are.
        part: which of them.

    Raises:
        CheckpointError: an embedding of other dimensions, or what `predict` refuses.
        DataError: see `predict`.
        NonFiniteError: features that are NaN or infinite.
    """
    for checkpoint in checkpoints.values():
        width = checkpoint.meta.recipe.model.embedding_dim
        if width != DIMENSIONS:
            plural = "" if width == 1 else "s"
            has = "no embedding" if width is None else f"an embedding of {width} dimension{plural}"
            raise CheckpointError(
                f"{checkpoint.path}: has {has}, and the figure shows {DIMENSIONS}; train a run with "
                f"--set model.embedding_dim={DIMENSIONS} (on CIFAR-10: --recipe cifar10-embedding)"
            )
    features = compute_features(checkpoints, split, session, part=part)
    place = {name: i for i, name in enumerate(split.classes.names)}
    labels = split.labels[split.indices(part)].astype(np.int64)
    found = {}
    for name, checkpoint in checkpoints.items():
        classifier = find_classifier(load_model(checkpoint), checkpoint.meta.recipe.model.arch).layer
        columns = np.array([place[each] for each in checkpoint.meta.class_names], dtype=np.int64)
        known = np.isin(labels, columns)
        found[name] = Embedding(
            points=features[name][known],
            labels=labels[known],
            weight=class_directions(classifier).detach().numpy(),
            bias=classifier.bias.detach().numpy(),
            columns=columns,
            class_names=split.classes.names,
            num_old=split.classes.num_old,
        )
    return found
