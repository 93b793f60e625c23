"""Measures how well a model's features tell apart novel classes, given a few test pictures of each."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import ndtri
from torch import Tensor

from mptctl.data.split import Split
from mptctl.errors import DataError, some
from mptctl.files import Model
from mptctl.inference.episodes import (
    Episode,
    compare_with_centroids,
    draw_episode,
    fit_heads,
    support_labels,
)
from mptctl.inference.predict import compute_features
from mptctl.inference.requests import EpisodeRequest
from mptctl.models.checkpoint import Checkpoint
from mptctl.models.finished import describe_unfinished
from mptctl.names import Progress, Session, tell_nobody

# Numbers of features in memory at once; 256 MB as float64.
MAX_NUMBERS = 2**25


class Score(Model):
    """Mean accuracy over episodes."""

    accuracy: float = Field(description="mean over episodes, a fraction")
    ci95: float | None = Field(
        description="half width of the 95 % interval (normal distribution); null for one episode"
    )


class FewShotReport(Model):
    """Accuracy of a model's features on classes that the model does not know."""

    run: str = Field(description="path of the checkpoint")
    head: str = Field(
        description="head fitted to each episode: linear (s w.f) or cosine, with s = 5 and no margin"
    )
    way: int = Field(description="number of classes in an episode")
    shot: int = Field(description="support pictures of each class")
    query: int = Field(description="queries of each class")
    seed: int = Field(description="of the episodes")
    episodes: int = Field(description="number of episodes")
    novel: list[str] = Field(description="classes of the episodes")
    accuracy: float = Field(description="of the fitted head: mean over episodes, a fraction")
    ci95: float | None = Field(description="half width of its 95 % interval; null for one episode")
    centroid: Score = Field(description="by the nearest mean of features of length 1")
    seconds: float = Field(description="time for the episodes, without the features")
    seconds_features: float = Field(description="time for the features")
    warnings: list[str] = Field(description="cautions for a reader of the numbers")


def measure_few_shot(
    checkpoint: Checkpoint,
    split: Split,
    request: EpisodeRequest,
    session: Session,
) -> FewShotReport:
    """Measure accuracy on episodes of novel classes, those that the model does not know, in the test part.

    Args:
        checkpoint: the model.
        split: the pictures and their classes.
        request: the episodes.
        session: progress, and the device for features; episodes are computed on the CPU.

    Raises:
        DataError: there are fewer novel classes than `way`, or fewer test pictures of one than shot + query.
        CheckpointError, NonFiniteError: see `compute_features`.
    """
    novel = list_novel_classes(checkpoint, split)
    labels = split.labels[split.indices("test")]
    index_of = {name: index for index, name in enumerate(split.classes.names)}
    rows = [np.flatnonzero(labels == index_of[name]) for name in novel]
    _refuse_too_few(checkpoint, novel, rows, request)
    began = time.perf_counter()
    features = torch.from_numpy(compute_features({"model": checkpoint}, split, session)["model"])
    computed = time.perf_counter()
    cosine = checkpoint.meta.recipe.model.head == "cosine"
    accuracies_by_method = measure_episodes(features, rows, request, cosine=cosine, progress=session.progress)
    ended = time.perf_counter()
    scores = {method: summarise_accuracies(accuracies) for method, accuracies in accuracies_by_method.items()}
    unfinished = describe_unfinished(checkpoint.path, checkpoint.meta)
    return FewShotReport(
        run=str(checkpoint.path),
        head="cosine" if cosine else "linear",
        **{key: getattr(request, key) for key in EpisodeRequest.model_fields},
        novel=novel,
        accuracy=scores["head"].accuracy,
        ci95=scores["head"].ci95,
        centroid=scores["centroid"],
        seconds=round(ended - computed, 3),
        seconds_features=round(computed - began, 3),
        warnings=[] if unfinished is None else [unfinished.sentence],
    )


def list_novel_classes(checkpoint: Checkpoint, split: Split) -> list[str]:
    """List the classes of a split that a model does not know, in the split's order."""
    known = set(checkpoint.meta.class_names)
    return [name for name in split.classes.names if name not in known]


def measure_episodes(
    features: Tensor,
    rows: Sequence[NDArray[np.int64]],
    request: EpisodeRequest,
    *,
    cosine: bool,
    progress: Progress = tell_nobody,
) -> dict[str, NDArray[np.float64]]:
    """Measure the accuracy in each episode by a fitted ``head`` and by ``centroid``.

    Args:
        features: (n, D) features of pictures.
        rows: for each novel class, the rows of its pictures in ``features``.
        request: the episodes.
        cosine: fit heads of cosines instead of linear ones.
        progress: called with the number of episodes done.

    Returns:
        For each method the (episodes,) accuracies, fractions.
    """
    way, width = request.way, features.shape[1]
    truth = support_labels(way, request.query)
    numbers_per_episode = way * (request.shot + request.query) * width
    at_once = max(1, MAX_NUMBERS // numbers_per_episode)
    accuracies: dict[str, list[NDArray[np.float64]]] = {"head": [], "centroid": []}
    for first in range(0, request.episodes, at_once):
        chunk = range(first, min(first + at_once, request.episodes))
        episodes = [
            draw_episode(
                rows,
                way=way,
                shot=request.shot,
                query=request.query,
                width=width,
                seed=request.seed,
                number=number,
            )
            for number in chunk
        ]
        support, query, orders, initial = _stack(features, episodes)
        logits = {
            "head": fit_heads(support, query, initial, orders, cosine=cosine),
            "centroid": compare_with_centroids(support, query, way),
        }
        for method, values in logits.items():
            accuracies[method].append((values.argmax(dim=2) == truth).double().mean(dim=1).numpy())
        progress("episodes", chunk.stop, request.episodes)
    return {method: np.concatenate(chunks) for method, chunks in accuracies.items()}


def summarise_accuracies(accuracies: NDArray[np.float64]) -> Score:
    """Mean of (episodes,) accuracies, and the half width of its 95 % interval: 1.96 s / sqrt(episodes).

    s is the standard deviation of the accuracies, here sqrt(0.02).

    >>> mean = summarise_accuracies(np.array([0.5, 0.7]))
    >>> round(mean.accuracy, 3), round(mean.ci95, 3)
    (0.6, 0.196)
    """
    count = len(accuracies)
    half = None if count < 2 else float(-ndtri(0.025) * accuracies.std(ddof=1) / np.sqrt(count))
    return Score(accuracy=float(accuracies.mean()), ci95=half)


def _stack(features: Tensor, episodes: Sequence[Episode]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Stack episodes: support features (E, S, D), query features (E, Q, D), orders, initial weights.

    Features are float64; orders (E, passes, S) and weights (E, way, D) are those of the episodes.
    """
    fields = zip(*episodes, strict=True)
    support, query, orders, initial = (torch.from_numpy(np.stack(values)) for values in fields)
    return features[support.flatten(1)].double(), features[query.flatten(1)].double(), orders, initial


def _refuse_too_few(
    checkpoint: Checkpoint, novel: Sequence[str], rows: Sequence[NDArray[np.int64]], request: EpisodeRequest
) -> None:
    """Raise DataError if there are too few novel classes, or too few test pictures of one, for the request.

    Args:
        checkpoint: for the message.
        novel: names of the novel classes.
        rows: rows of each class's test pictures.
        request: the episodes.
    """
    if request.way > len(novel):
        raise DataError(
            f"--way {request.way}: {checkpoint.path} leaves {len(novel)} novel classes "
            f"({some(novel) or 'none'}); name a run that knows fewer classes of the split, or lower --way"
        )
    needed = request.shot + request.query
    for name, pictures in zip(novel, rows, strict=True):
        if len(pictures) < needed:
            raise DataError(
                f"class {name}: {len(pictures)} test pictures, and --shot {request.shot} with --query "
                f"{request.query} needs {needed}; lower one of them, or add pictures"
            )
