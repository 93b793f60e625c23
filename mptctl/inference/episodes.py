"""Few-shot episodes as tensors: drawn by seed and number, and answered by three classifiers, many at a time.

E episodes of `way` classes; S = way * shot support pictures and Q queries in each; D numbers a feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

# The head of an episode, as published (bl0/negative-margin.few-shot): s, passes over the support, batch and
# SGD.
SCALE, PASSES, BATCH = 5.0, 100, 4
RATE, MOMENTUM, DAMPENING, DECAY = 0.01, 0.9, 0.9, 0.001
# Steps of the quasi-Newton method at most: the regularised problem is well conditioned and needs about
# twenty.
LBFGS_STEPS = 200


class Episode(NamedTuple):
    """An episode.

    support: (way, shot) rows of the features, a line a class.
    query: (way, queries) rows.
    orders: (PASSES, way * shot) order of the support in each pass, counted in lines of `support`.
    initial: (way, D) weights that the head begins with.
    """

    support: NDArray[np.int64]
    query: NDArray[np.int64]
    orders: NDArray[np.int64]
    initial: NDArray[np.float64]


def draw_episode(
    rows: Sequence[NDArray[np.int64]], *, way: int, shot: int, query: int, width: int, seed: int, number: int
) -> Episode:
    """An episode as a function of seed and number alone.

    Args:
        rows: of each class, its pictures as rows of the features; at least shot + query each.
        way, shot, query: classes, and support pictures and queries of each.
        width: D.
        seed, number: which episode of which series.
    """
    rng = np.random.default_rng([seed, number])
    chosen = rng.choice(len(rows), way, replace=False)
    picked = np.stack([rng.choice(rows[c], shot + query, replace=False) for c in chosen])
    orders = rng.permuted(np.tile(np.arange(way * shot), (PASSES, 1)), axis=1)
    bound = width**-0.5  # what a fresh linear layer is drawn from
    return Episode(picked[:, :shot], picked[:, shot:], orders, rng.uniform(-bound, bound, (way, width)))


def support_labels(way: int, shot: int) -> Tensor:
    """(way * shot,) class of each support picture, as places in the episode."""
    return torch.arange(way).repeat_interleave(shot)


def fit_heads(support: Tensor, query: Tensor, initial: Tensor, orders: Tensor, *, cosine: bool) -> Tensor:
    """Fit a head to each episode by stochastic gradient descent: s w.f, or s cos(w, f), without a bias.

    Weights never leave the span of the support and of what they began with, so that descent in an orthonormal
    basis of it, of S + way numbers and not D, is the same descent.

    Args:
        support: (E, S, D) float, in the order of `support_labels`.
        query: (E, Q, D).
        initial: (E, way, D) weights to begin with.
        orders: (E, passes, S) order of the support in each pass.
        cosine: whether the head is one of cosines.

    Returns:
        (E, Q, way) logits of the queries; of cosines up to a positive factor a query.
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
            batch, wanted = pictures[:, start : start + BATCH], classes[:, start : start + BATCH]
            norm = w.norm(dim=2, keepdim=True)
            rows = w / norm if cosine else w
            error = (SCALE * batch @ rows.mT).softmax(dim=2) - wanted
            grad = (SCALE / batch.shape[1]) * error.mT @ batch
            if cosine:
                grad = (grad - (grad * rows).sum(dim=2, keepdim=True) * rows) / norm
            grad = grad + DECAY * w
            # torch's SGD takes the first gradient whole, and dampens those after it.
            velocity = grad if velocity is None else MOMENTUM * velocity + (1 - DAMPENING) * grad
            w = w - RATE * velocity
    logits: Tensor = SCALE * queries @ (F.normalize(w, dim=2) if cosine else w).mT
    return logits


def nearest_centroids(support: Tensor, query: Tensor, way: int) -> Tensor:
    """Minus the squared distance of each query to each class's mean, of features of length 1.

    Args:
        support: (E, S, D), in the order of `support_labels`.
        query: (E, Q, D).
        way: classes of an episode.

    Returns:
        (E, Q, way), up to what is the same for all classes.
    """
    x, queries = F.normalize(support, dim=2), F.normalize(query, dim=2)
    centroids = x.reshape(len(x), way, -1, x.shape[2]).mean(dim=2)
    nearness: Tensor = 2 * queries @ centroids.mT - centroids.square().sum(dim=2)[:, None]
    return nearness


def logistic_regressions(support: Tensor, query: Tensor, way: int) -> Tensor:
    """Logits of logistic regression on features of length 1: least cross-entropies + |W|^2 / 2, no bias.

    Args and result: as `nearest_centroids`.
    """
    x, queries = F.normalize(support, dim=2), F.normalize(query, dim=2)
    # The solution lies in the span of the support: S numbers a picture are enough.
    basis = torch.linalg.qr(x.mT).Q
    x, queries = x @ basis, queries @ basis
    labels = support_labels(way, x.shape[1] // way).expand(len(x), -1)
    w = torch.zeros(len(x), way, x.shape[2], dtype=x.dtype, requires_grad=True)
    solver = torch.optim.LBFGS([w], max_iter=LBFGS_STEPS, tolerance_grad=1e-8, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy((x @ w.mT).flatten(0, 1), labels.flatten(), reduction="sum")
        total = loss + 0.5 * w.square().sum()
        total.backward()
        return total

    with torch.enable_grad():
        solver.step(objective)
    logits: Tensor = queries @ w.detach().mT
    return logits
