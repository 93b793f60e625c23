"""Draws few-shot episodes by seed and number, and classifies many episodes at a time by two methods.

Shapes: E episodes; `way` classes, S = way * shot support pictures and Q = way * query queries in each
episode; features of D numbers. Support pictures are sorted by class, as in `support_labels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

# How bl0/negative-margin.few-shot fits a head to an episode: scale s of the logits, passes over the support
# pictures, pictures in a batch, and the settings of SGD (learning rate, momentum, dampening, weight decay).
SCALE, PASSES, BATCH = 5.0, 100, 4
RATE, MOMENTUM, DAMPENING, DECAY = 0.01, 0.9, 0.9, 0.001


class Episode(NamedTuple):
    """A few-shot episode: which pictures show each class, and which are to be classified.

    Attributes:
        support: (way, shot) rows of the feature matrix, one line for each class.
        query: (way, query) rows of the feature matrix.
        orders: (PASSES, S) order of the support pictures in each pass, as indices into the flat ``support``.
        initial: (way, D) initial weights of the head.
    """

    support: NDArray[np.int64]
    query: NDArray[np.int64]
    orders: NDArray[np.int64]
    initial: NDArray[np.float64]


def draw_episode(
    rows: Sequence[NDArray[np.int64]], *, way: int, shot: int, query: int, width: int, seed: int, number: int
) -> Episode:
    """Draw an episode; equal arguments give equal episodes.

    Args:
        rows: for each class, the rows of its pictures in the feature matrix; at least shot + query each.
        way: number of classes to draw.
        shot: support pictures of each class.
        query: queries of each class.
        width: D.
        seed: names a series of episodes.
        number: of the episode in the series.
    """
    rng = np.random.default_rng([seed, number])
    classes = rng.choice(len(rows), way, replace=False)
    picked = np.stack([rng.choice(rows[index], shot + query, replace=False) for index in classes])
    orders = rng.permuted(np.tile(np.arange(way * shot), (PASSES, 1)), axis=1)
    bound = width**-0.5  # the bound of a fresh nn.Linear
    return Episode(picked[:, :shot], picked[:, shot:], orders, rng.uniform(-bound, bound, (way, width)))


def support_labels(way: int, shot: int) -> Tensor:
    """(way * shot,) class of each support picture, from 0 to way - 1, in ascending order."""
    return torch.arange(way).repeat_interleave(shot)


def fit_heads(support: Tensor, query: Tensor, initial: Tensor, orders: Tensor, *, cosine: bool) -> Tensor:
    """Fit a head without a bias to each episode by SGD on the cross-entropy; return the queries' logits.

    The logits of a feature f are s w.f or s cos(w, f), with the weights w of each class. The weights stay in
    the span of the support features and the initial weights. So the descent runs in an orthonormal basis of
    that span, with S + way numbers instead of D, and has the same result.

    Args:
        support: (E, S, D) float features.
        query: (E, Q, D) features.
        initial: (E, way, D) initial weights.
        orders: (E, passes, S) order of the support pictures in each pass.
        cosine: fit s cos(w, f) instead of s w.f.

    Returns:
        (E, Q, way) logits; for cosines each query's logits have a positive factor, the length of its feature.
    """
    way = initial.shape[1]
    labels = support_labels(way, support.shape[1] // way)
    basis = torch.linalg.qr(torch.cat([support, initial], dim=1).mT).Q
    x, w, queries = support @ basis, initial @ basis, query @ basis
    if cosine:
        x = F.normalize(x, dim=2)
    truth = F.one_hot(labels, way).to(x.dtype)
    velocity: Tensor | None = None
    for order in orders.unbind(dim=1):
        pictures = x.gather(1, order[:, :, None].expand(-1, -1, x.shape[2]))
        classes = truth[order]
        for start in range(0, order.shape[1], BATCH):
            batch, targets = pictures[:, start : start + BATCH], classes[:, start : start + BATCH]
            norm = w.norm(dim=2, keepdim=True)
            used = w / norm if cosine else w
            # The cross-entropy has the gradient softmax - targets by the logits; the rest is the chain rule.
            error = (SCALE * batch @ used.mT).softmax(dim=2) - targets
            grad = (SCALE / batch.shape[1]) * error.mT @ batch
            if cosine:  # the derivative of w / |w|
                grad = (grad - (grad * used).sum(dim=2, keepdim=True) * used) / norm
            grad = grad + DECAY * w
            # As in torch's SGD, the first gradient is not dampened.
            velocity = grad if velocity is None else MOMENTUM * velocity + (1 - DAMPENING) * grad
            w = w - RATE * velocity
    logits: Tensor = SCALE * queries @ (F.normalize(w, dim=2) if cosine else w).mT
    return logits


def compare_with_centroids(support: Tensor, query: Tensor, way: int) -> Tensor:
    """Compute how near each query is to each class's mean, for features scaled to length 1.

    Args:
        support: (E, S, D) features.
        query: (E, Q, D) features.
        way: number of classes in an episode.

    Returns:
        (E, Q, way) minus the squared distances, plus 1 (a query's squared length).
    """
    x, queries = F.normalize(support, dim=2), F.normalize(query, dim=2)
    centroids = x.reshape(len(x), way, -1, x.shape[2]).mean(dim=2)
    nearness: Tensor = 2 * queries @ centroids.mT - centroids.square().sum(dim=2)[:, None]
    return nearness
