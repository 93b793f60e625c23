"""Few-shot accuracy of a trained model: new classes told apart from a few pictures of the test part."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import ndtri
from torch import Tensor

from mptctl.data.split import Split
from mptctl.errors import DataError, UsageError, some
from mptctl.files import Model
from mptctl.inference.episodes import (
    Episode,
    draw_episode,
    fit_heads,
    logistic_regressions,
    nearest_centroids,
    support_labels,
)
from mptctl.inference.predict import compute_features
from mptctl.models.checkpoint import Checkpoint
from mptctl.models.finished import describe_unfinished
from mptctl.names import Progress, Session, tell_nobody

# Numbers of features that are held at once, as float64: 256 MB.
MOST_NUMBERS = 2**25


@dataclass(frozen=True)
class EpisodeRequest:
    """Episodes of `way` classes with `shot` support pictures and `query` queries each, and their seed."""

    way: int = 5
    shot: int = 1
    query: int = 16
    episodes: int = 600
    seed: int = 0


class Score(Model):
    """Mean accuracy over episodes."""

    accuracy: float = Field(description="mean over episodes, a fraction")
    ci95: float | None = Field(
        description="half width of its 95 % interval, of the normal distribution; null for one episode"
    )


class FewShotReport(Model):
    """The worth of a model's features for classes that it does not know."""

    run: str = Field(description="the checkpoint")
    head: str = Field(
        description="fitted to each episode: linear (s w.f) or cosine, with s = 5 and no margin"
    )
    way: int = Field(description="classes of an episode")
    shot: int = Field(description="support pictures of a class")
    query: int = Field(description="queries of a class")
    seed: int = Field(description="of the episodes")
    episodes: int = Field(description="how many")
    novel: list[str] = Field(description="classes that they are drawn from")
    accuracy: float = Field(description="of the fitted head: mean over episodes, a fraction")
    ci95: float | None = Field(description="half width of its 95 % interval; null for one episode")
    centroid: Score = Field(description="of the nearest mean of features of length 1")
    logistic: Score = Field(description="of logistic regression on features of length 1 (C = 1, no bias)")
    seconds: float = Field(description="that the episodes took, without the features")
    seconds_features: float = Field(description="that the features took")
    warnings: list[str] = Field(description="what a reader of the numbers should know")


def few_shot(
    checkpoint: Checkpoint,
    split: Split,
    request: EpisodeRequest,
    session: Session,
    *,
    classes: Sequence[str] | None = None,
) -> FewShotReport:
    """Accuracy on episodes of novel classes: those that the model does not know, by their test pictures.

    Args:
        checkpoint: the model.
        split: whose pictures.
        request: which episodes.
        session: where features are computed, and who is told how far it is; episodes are on the CPU.
        classes: draw from these novel classes alone; None: from all.

    Raises:
        UsageError: a class of `classes` that is not novel, or a request for no class, picture or episode.
        DataError: fewer novel classes than `way`, or fewer pictures of one than shot + query; it is named.
        CheckpointError, NonFiniteError: see `compute_features`.
    """
    for flag, value, least in (
        ("--way", request.way, 2), ("--shot", request.shot, 1),
        ("--query", request.query, 1), ("--episodes", request.episodes, 1),
    ):  # fmt: skip
        if value < least:
            raise UsageError(f"{flag} {value}: must be at least {least}")
    if request.seed < 0:
        raise UsageError(f"--seed {request.seed}: must be at least 0")
    novel = novel_classes(checkpoint, split, classes)
    labels = split.labels[split.indices("test")]
    place = {name: number for number, name in enumerate(split.classes.names)}
    rows = [np.flatnonzero(labels == place[name]) for name in novel]
    _refuse_too_few(checkpoint, novel, rows, request)
    began = time.perf_counter()
    features = torch.from_numpy(compute_features({"model": checkpoint}, split, session)["model"])
    computed = time.perf_counter()
    cosine = checkpoint.meta.recipe.model.head == "cosine"
    right = answer_episodes(features, rows, request, cosine=cosine, progress=session.progress)
    ended = time.perf_counter()
    scores = {name: score(accuracies) for name, accuracies in right.items()}
    end = describe_unfinished(checkpoint.path, checkpoint.meta)
    return FewShotReport(
        run=str(checkpoint.path),
        head="cosine" if cosine else "linear",
        way=request.way,
        shot=request.shot,
        query=request.query,
        seed=request.seed,
        episodes=request.episodes,
        novel=novel,
        accuracy=scores["head"].accuracy,
        ci95=scores["head"].ci95,
        centroid=scores["centroid"],
        logistic=scores["logistic"],
        seconds=round(ended - computed, 3),
        seconds_features=round(computed - began, 3),
        warnings=[] if end is None else [end.sentence],
    )


def novel_classes(checkpoint: Checkpoint, split: Split, classes: Sequence[str] | None = None) -> list[str]:
    """Classes of a split that a model does not know, in the split's order; of `classes` alone if given.

    Raises:
        UsageError: one of `classes` is not among them.
    """
    known = set(checkpoint.meta.class_names)
    novel = [name for name in split.classes.names if name not in known]
    if classes is None:
        return novel
    strangers = [name for name in classes if name not in set(novel)]
    if strangers:
        raise UsageError(
            f"--classes: {some(strangers)}: not among the {len(novel)} classes of the split that the model "
            "does not know; name some of those"
        )
    return [name for name in novel if name in set(classes)]


def answer_episodes(
    features: Tensor,
    rows: Sequence[NDArray[np.int64]],
    request: EpisodeRequest,
    *,
    cosine: bool,
    progress: Progress = tell_nobody,
) -> dict[str, NDArray[np.float64]]:
    """Accuracy in each episode, (episodes,) by classifier: ``head``, ``centroid`` and ``logistic``.

    Args:
        features: (n, D).
        rows: of each novel class, its rows of the features.
        request: which episodes.
        cosine: whether the fitted head is one of cosines.
        progress: told how many episodes are done.
    """
    way, width = request.way, features.shape[1]
    truth = support_labels(way, request.query)
    numbers = way * (request.shot + request.query) * width
    at_once = max(1, MOST_NUMBERS // numbers)
    found: dict[str, list[NDArray[np.float64]]] = {"head": [], "centroid": [], "logistic": []}
    for first in range(0, request.episodes, at_once):
        some_of = range(first, min(first + at_once, request.episodes))
        drawn = [
            draw_episode(
                rows,
                way=way,
                shot=request.shot,
                query=request.query,
                width=width,
                seed=request.seed,
                number=number,
            )
            for number in some_of
        ]
        support, query, orders, initial = _stack(features, drawn)
        logits = {
            "head": fit_heads(support, query, initial, orders, cosine=cosine),
            "centroid": nearest_centroids(support, query, way),
            "logistic": logistic_regressions(support, query, way),
        }
        for name, each in logits.items():
            found[name].append((each.argmax(dim=2) == truth).double().mean(dim=1).numpy())
        progress("episodes", some_of.stop, request.episodes)
    return {name: np.concatenate(each) for name, each in found.items()}


def score(accuracies: NDArray[np.float64]) -> Score:
    """Mean of (episodes,) accuracies, and the half width of its 95 % interval: 1.96 s / sqrt(episodes).

    >>> found = score(np.array([0.5, 0.7]))  # s is sqrt(0.02), so that 1.96 s / sqrt(2) is 0.196
    >>> round(found.accuracy, 3), round(found.ci95, 3)
    (0.6, 0.196)
    """
    count = len(accuracies)
    half = None if count < 2 else float(-ndtri(0.025) * accuracies.std(ddof=1) / np.sqrt(count))
    return Score(accuracy=float(accuracies.mean()), ci95=half)


def _stack(features: Tensor, drawn: Sequence[Episode]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Support (E, S, D), queries (E, Q, D), both float64, orders (E, passes, S), weights (E, way, D)."""
    support, query, orders, initial = (torch.from_numpy(np.stack(each)) for each in zip(*drawn, strict=True))
    return features[support.flatten(1)].double(), features[query.flatten(1)].double(), orders, initial


def _refuse_too_few(
    checkpoint: Checkpoint, novel: Sequence[str], rows: Sequence[NDArray[np.int64]], request: EpisodeRequest
) -> None:
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
