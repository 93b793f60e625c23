"""The effect of margins: accuracy on base and novel classes, and variance between and within classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from mptctl.data.split import Split
from mptctl.errors import DataError
from mptctl.files import Model
from mptctl.inference.few_shot import (
    EpisodeRequest,
    Score,
    answer_episodes,
    novel_classes,
    score,
)
from mptctl.inference.predict import compute_features
from mptctl.models.checkpoint import Checkpoint, load_model
from mptctl.models.heads import find_classifier
from mptctl.names import HeadName, Progress, Session

# Pictures shown of each class, as in the paper's tables.
SHOTS = (1, 5)


class Spread(Model):
    """Of features of length 1 of some classes, squared distances."""

    between: float = Field(description="mean over pairs of classes of the distance of their means")
    within: float = Field(description="mean over classes of the mean distance to their own mean")
    ratio: float | None = Field(description="between / within; null where within is 0")
    classes: int = Field(description="how many")
    pictures: int = Field(description="of them, in the test part")


class Discriminability(Model):
    """One run's figures."""

    run: str = Field(description="as it was named")
    head: HeadName = Field(description="that it was trained with")
    margin: float = Field(description="m that it was trained with")
    base: Spread = Field(description="of the classes that it knows")
    novel: Spread | None = Field(
        description="of the others of the split; null where there are fewer than two"
    )
    base_accuracy: float = Field(description="right predictions / test pictures of the classes that it knows")
    novel_accuracy: dict[int, Score] = Field(
        description="by pictures shown of each class: of a head fitted to each episode, as `fewshot` "
        "measures it; empty where there are too few novel classes or pictures"
    )


class DiscriminabilityReport(Model):
    """The object that `fewshot --analysis` prints."""

    runs: list[Discriminability] = Field(description="in the order in which they were named")
    figure: str = Field(description="the file")


def discriminability(
    checkpoints: Mapping[str, Checkpoint],
    split: Split,
    request: EpisodeRequest,
    session: Session,
) -> list[Discriminability]:
    """Spread of base and novel classes on the test part (Liu et al., ECCV 2020, section 4).

    Args:
        checkpoints: the models by name.
        split: whose pictures.
        request: which episodes; in place of its shots, `SHOTS` are taken one after the other.
        session: where they compute, and who is told how far they are.

    Raises:
        DataError: fewer than two classes that a model knows have test pictures.
        CheckpointError, NonFiniteError: see `compute_features`.
    """
    labels = np.array(split.classes.names, dtype=np.str_)[split.labels[split.indices("test")]]
    found = []
    for name, checkpoint in checkpoints.items():
        features = compute_features({name: checkpoint}, split, session)[name]
        others = novel_classes(checkpoint, split)  # in the order in which `few_shot` draws from them
        novel = np.isin(labels, others)
        base = spread(features[~novel], labels[~novel])
        if base is None:
            raise DataError(
                f"{checkpoint.path}: the test part has pictures of fewer than two classes that it knows; "
                "name a run of this split"
            )
        model = checkpoint.meta.recipe.model
        with torch.inference_mode():
            logits = find_classifier(load_model(checkpoint), model.arch).layer(
                torch.from_numpy(features[~novel])
            )
        answers = np.array(checkpoint.meta.class_names, dtype=np.str_)[logits.argmax(dim=1).numpy()]
        found.append(
            Discriminability(
                run=name,
                head=model.head,
                margin=model.head_margin,
                base=base,
                novel=spread(features[novel], labels[novel]),
                base_accuracy=float((answers == labels[~novel]).mean()),
                novel_accuracy=_novel_accuracy(
                    torch.from_numpy(features),
                    [np.flatnonzero(labels == other) for other in others],
                    request,
                    cosine=model.head == "cosine",
                    progress=session.progress,
                ),
            )
        )
    return found


def _novel_accuracy(
    features: Tensor,
    rows: Sequence[NDArray[np.int64]],
    request: EpisodeRequest,
    *,
    cosine: bool,
    progress: Progress,
) -> dict[int, Score]:
    found = {}
    for shot in SHOTS:
        if len(rows) < request.way or min(map(len, rows)) < shot + request.query:
            continue
        right = answer_episodes(features, rows, replace(request, shot=shot), cosine=cosine, progress=progress)
        found[shot] = score(right["head"])
    return found


def spread(features: NDArray[np.float32], labels: NDArray[np.str_]) -> Spread | None:
    """Variance between and within classes; None of fewer than two.

    Args:
        features: (n, D); they are brought to length 1.
        labels: (n,).
    """
    names = np.unique(labels)
    if len(names) < 2:
        return None
    x = features.astype(np.float64)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    means = np.stack([x[labels == name].mean(axis=0) for name in names])
    within = float(
        np.mean([((x[labels == n] - m) ** 2).sum(axis=1).mean() for n, m in zip(names, means, strict=True)])
    )
    # Over the K (K - 1) ordered pairs of the K means, the sum of |a - b|^2 is 2 K times their scatter; so the
    # mean over pairs is 2 K scatter / (K (K - 1)).
    scatter = float(((means - means.mean(axis=0)) ** 2).sum())
    between = 2 * scatter / (len(names) - 1)
    return Spread(
        between=between,
        within=within,
        ratio=between / within if within > 0 else None,
        classes=len(names),
        pictures=len(labels),
    )
