"""Computes 2-dimensional features of pictures, with the classifier on them, for a figure of an embedding."""

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
from mptctl.names import Session

DIMENSIONS = 2


@dataclass(frozen=True)
class Embedding:
    """A model's features of pictures of the C classes that it knows, and its classifier.

    Attributes:
        points: (N, 2) features.
        labels: (N,) true classes, as indices into ``class_names``.
        weight: (C, 2) weights of the classifier.
        bias: (C,) biases of the classifier.
        columns: (C,) class of each row of ``weight``, as an index into ``class_names``.
        class_names: classes of the split, old ones first.
        num_old: number of old classes among them.
    """

    points: NDArray[Any]
    labels: NDArray[np.int64]
    weight: NDArray[Any]
    bias: NDArray[Any]
    columns: NDArray[np.int64]
    class_names: tuple[str, ...]
    num_old: int

    def predict(self, points: NDArray[Any]) -> NDArray[np.int64]:
        """(n, 2) features -> (n,) predicted classes, as indices into ``class_names``."""
        logits = points @ self.weight.T + self.bias
        classes: NDArray[np.int64] = self.columns[logits.argmax(axis=1)]
        return classes

    @property
    def error(self) -> float:
        """Error of the model on these pictures, a fraction."""
        return float((self.predict(self.points) != self.labels).mean())


def compute_embeddings(
    checkpoints: Mapping[str, Checkpoint],
    split: Split,
    session: Session = Session(),
) -> dict[str, Embedding]:
    """Compute the features of test pictures by models with an embedding of two dimensions, in float32.

    Args:
        checkpoints: the models by name.
        split: the pictures; of each model only those of classes that it knows are kept.
        session: device and progress.

    Raises:
        CheckpointError: a model has no embedding or one of other dimensions; or as `predict`.
        DataError: as `predict`.
        NonFiniteError: features are NaN or infinite.
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
    features = compute_features(checkpoints, split, session, part="test")
    index_of = {name: index for index, name in enumerate(split.classes.names)}
    labels = split.labels[split.indices("test")].astype(np.int64)
    embeddings = {}
    for name, checkpoint in checkpoints.items():
        classifier = find_classifier(load_model(checkpoint), checkpoint.meta.recipe.model.arch).layer
        columns = np.array([index_of[known] for known in checkpoint.meta.class_names], dtype=np.int64)
        is_known = np.isin(labels, columns)
        embeddings[name] = Embedding(
            points=features[name][is_known],
            labels=labels[is_known],
            weight=class_directions(classifier).detach().numpy(),
            bias=classifier.bias.detach().numpy(),
            columns=columns,
            class_names=split.classes.names,
            num_old=split.classes.num_old,
        )
    return embeddings
