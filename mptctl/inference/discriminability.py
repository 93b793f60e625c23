"""Measures how margins in training change features: accuracy, and spread between and within classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from mptctl.data.split import Split
from mptctl.errors import DataError
from mptctl.files import Model
from mptctl.inference.few_shot import (
    Score,
    list_novel_classes,
    measure_episodes,
    summarise_accuracies,
)
from mptctl.inference.predict import compute_features
from mptctl.inference.requests import EpisodeRequest
from mptctl.models.checkpoint import Checkpoint, load_model
from mptctl.models.heads import find_classifier
from mptctl.names import HeadName, Progress, Session

# Support pictures of each class, as in the tables of Liu et al. (ECCV 2020).
SHOTS = (1, 5)


class Spread(Model):
    """Squared distances between features of length 1, between and within classes."""

    between: float = Field(description="mean squared distance of two classes' means, over all pairs")
    within: float = Field(
        description="mean squared distance of features to their class's mean, over all classes"
    )
    ratio: float | None = Field(description="between / within; null if within is 0")
    classes: int = Field(description="number of classes")
    pictures: int = Field(description="number of their test pictures")


class Discriminability(Model):
    """Spread and accuracy of one run's features, for base and novel classes."""

    run: str = Field(description="the run, as named on the command line")
    head: HeadName = Field(description="head that the run was trained with")
    margin: float = Field(description="margin m that the run was trained with")
    base: Spread = Field(description="spread of the base classes: those that the model knows")
    novel: Spread | None = Field(
        description="spread of the novel classes: the split's other classes; null if there are fewer than two"
    )
    base_accuracy: float = Field(description="right predictions / test pictures of base classes")
    novel_accuracy: dict[int, Score] = Field(
        description="accuracy of a head fitted to each episode, as in `fewshot`, by support pictures "
        "of a class; empty if there are too few novel classes or pictures"
    )


class DiscriminabilityReport(Model):
    """The object that `fewshot --analysis` prints."""

    runs: list[Discriminability] = Field(description="in the order of the command line")
    figure: str = Field(description="path of the figure")


def measure_discriminability(
    checkpoints: Mapping[str, Checkpoint],
    split: Split,
    request: EpisodeRequest,
    session: Session,
) -> list[Discriminability]:
    """Measure spread and accuracy of base and novel classes on the test part (Liu et al., section 4).

    Args:
        checkpoints: the models by name.
        split: the pictures and their classes.
        request: the episodes; instead of its ``shot``, each of `SHOTS` is used.
        session: device and progress.

    Raises:
        DataError: fewer than two classes that a model knows have test pictures.
        CheckpointError, NonFiniteError: see `compute_features`.
    """
    labels = np.array(split.classes.names, dtype=np.str_)[split.labels[split.indices("test")]]
    results = []
    for name, checkpoint in checkpoints.items():
        features = compute_features({name: checkpoint}, split, session)[name]
        novel_names = list_novel_classes(
            checkpoint, split
        )  # in the order from which `measure_few_shot` draws
        is_novel = np.isin(labels, novel_names)
        base = compute_spread(features[~is_novel], labels[~is_novel])
        if base is None:
            raise DataError(
                f"{checkpoint.path}: the test part has pictures of fewer than two classes that it knows; "
                "name a run of this split"
            )
        model = checkpoint.meta.recipe.model
        with torch.inference_mode():
            logits = find_classifier(load_model(checkpoint), model.arch).layer(
                torch.from_numpy(features[~is_novel])
            )
        predicted = np.array(checkpoint.meta.class_names, dtype=np.str_)[logits.argmax(dim=1).numpy()]
        results.append(
            Discriminability(
                run=name,
                head=model.head,
                margin=model.head_margin,
                base=base,
                novel=compute_spread(features[is_novel], labels[is_novel]),
                base_accuracy=float((predicted == labels[~is_novel]).mean()),
                novel_accuracy=_measure_novel_accuracy(
                    torch.from_numpy(features),
                    [np.flatnonzero(labels == name) for name in novel_names],
                    request,
                    cosine=model.head == "cosine",
                    progress=session.progress,
                ),
            )
        )
    return results


def _measure_novel_accuracy(
    features: Tensor,
    rows: Sequence[NDArray[np.int64]],
    request: EpisodeRequest,
    *,
    cosine: bool,
    progress: Progress,
) -> dict[int, Score]:
    """Measure the accuracy of heads fitted to episodes, for each of `SHOTS` with enough pictures.

    Args: as for `measure_episodes`; the request's ``shot`` is not used.
    """
    scores = {}
    for shot in SHOTS:
        if len(rows) < request.way or min(map(len, rows)) < shot + request.query:
            continue
        accuracies = measure_episodes(
            features, rows, request.model_copy(update={"shot": shot}), cosine=cosine, progress=progress
        )
        scores[shot] = summarise_accuracies(accuracies["head"])
    return scores


def compute_spread(features: NDArray[np.float32], labels: NDArray[np.str_]) -> Spread | None:
    """Compute the spread of features between and within classes; None if there are fewer than two classes.

    Args:
        features: (n, D); scaled to length 1 here.
        labels: (n,) name of each feature's class.
    """
    names = np.unique(labels)
    if len(names) < 2:
        return None
    x = features.astype(np.float64)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    means = np.stack([x[labels == name].mean(axis=0) for name in names])
    deviations = [
        ((x[labels == name] - mean) ** 2).sum(axis=1).mean() for name, mean in zip(names, means, strict=True)
    ]
    within = float(np.mean(deviations))
    # For K means, |a - b|^2 summed over their K (K - 1) ordered pairs is 2 K times their scatter. So the mean
    # over pairs is 2 scatter / (K - 1).
    scatter = float(((means - means.mean(axis=0)) ** 2).sum())
    between = 2 * scatter / (len(names) - 1)
    return Spread(
        between=between,
        within=within,
        ratio=between / within if within > 0 else None,
        classes=len(names),
        pictures=len(labels),
    )
