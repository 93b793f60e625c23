"""Episodes: what is drawn, and the classifiers against hand counts and torch's own descent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mptctl.inference.episodes import (
    PASSES,
    Episode,
    compare_with_centroids,
    draw_episode,
    fit_heads,
)
from mptctl.inference.few_shot import EpisodeRequest, measure_episodes, summarise_accuracies

ROWS = [np.arange(0, 9), np.arange(20, 32), np.arange(40, 47), np.arange(60, 80)]


def draw(seed: int = 3, number: int = 7) -> Episode:
    return draw_episode(ROWS, way=3, shot=2, query=4, width=6, seed=seed, number=number)


def test_an_episode_holds_different_pictures_of_different_classes_and_depends_on_seed_and_number() -> None:
    episode = draw()
    assert (episode.support.shape, episode.query.shape) == ((3, 2), (3, 4))
    classes = []
    for line in np.concatenate([episode.support, episode.query], axis=1):
        assert len(set(line.tolist())) == 6
        classes += [number for number, rows in enumerate(ROWS) if set(line.tolist()) <= set(rows.tolist())]
    assert len(set(classes)) == 3
    assert (np.sort(episode.orders, axis=1) == np.arange(6)).all()
    assert episode.orders.shape == (PASSES, 6)
    assert np.abs(episode.initial).max() <= 6**-0.5
    assert all((one == other).all() for one, other in zip(episode, draw(), strict=True))
    assert any((one != other).any() for one, other in zip(episode, draw(number=8), strict=True))
    assert any((one != other).any() for one, other in zip(episode, draw(seed=4), strict=True))


def test_the_first_episodes_are_the_same_however_many_there_are() -> None:
    features = torch.rand(80, 6, generator=torch.Generator().manual_seed(1))
    request = EpisodeRequest(way=3, shot=2, query=4, episodes=5)
    few = measure_episodes(features, ROWS, request, cosine=False)
    more = measure_episodes(features, ROWS, EpisodeRequest(way=3, shot=2, query=4, episodes=9), cosine=False)
    for name in ("head", "centroid"):
        assert (more[name][:5] == few[name]).all()
        assert more[name].shape == (9,)


def test_centroids_by_hand() -> None:
    """Of length 1, class 0 has (1, 0) and (0, 1), mean (.5, .5); class 1 has (-1, 0) twice."""
    support = torch.tensor([[[2.0, 0.0], [0.0, 7.0], [-1.0, 0.0], [-5.0, 0.0]]], dtype=torch.float64)
    query = torch.tensor([[[3.0, 0.0], [-3.0, 4.0]]], dtype=torch.float64)
    # (1, 0): squared distances .5 and 4. (-.6, .8): 1.21 + .09 = 1.3 and .16 + .64 = .8.
    got = compare_with_centroids(support, query, 2)[0]
    want = -torch.tensor([[0.5, 4.0], [1.3, 0.8]], dtype=torch.float64)
    torch.testing.assert_close(got - got[:, :1], want - want[:, :1])


def episodes(way: int, shot: int, width: int, count: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(way + shot)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    orders = torch.stack([torch.randperm(way * shot, generator=generator) for _ in range(count * 7)])
    return (
        normal(count, way * shot, width).relu(), normal(count, 6, width).relu(),
        normal(count, way, width), orders.unflatten(0, (count, 7)),
    )  # fmt: skip


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize(("way", "shot", "width"), [(3, 2, 40), (5, 1, 12), (4, 3, 5)])
def test_the_fitted_head_is_what_torchs_own_descent_comes_to(
    way: int, shot: int, width: int, cosine: bool
) -> None:
    """Also where features have fewer numbers than the span has directions."""
    support, query, initial, orders = episodes(way, shot, width)
    got = fit_heads(support, query, initial, orders, cosine=cosine)
    labels = torch.arange(way).repeat_interleave(shot)
    for number in range(len(support)):
        weight = nn.Parameter(initial[number].clone())
        descent = torch.optim.SGD([weight], lr=0.01, momentum=0.9, dampening=0.9, weight_decay=0.001)

        def logits(x: Tensor, weight: nn.Parameter = weight) -> Tensor:
            if cosine:
                return 5 * F.linear(F.normalize(x), F.normalize(weight))
            return 5 * F.linear(x, weight)

        for order in orders[number]:
            for part in order.split(4):
                descent.zero_grad()
                F.cross_entropy(logits(support[number, part]), labels[part]).backward()
                descent.step()
        want, found = logits(query[number]).detach(), got[number]
        if cosine:  # known up to a positive factor a query
            want, found = F.normalize(want), F.normalize(found)
        torch.testing.assert_close(found, want, atol=1e-10, rtol=0)


def test_a_score_by_hand() -> None:
    """Mean .5; deviation of 0, .5 and 1 is .5, over the root of 3, times 1.96."""
    found = summarise_accuracies(np.array([0.0, 0.5, 1.0]))
    assert found.accuracy == 0.5
    assert found.ci95 == pytest.approx(1.959964 * 0.5 / 3**0.5, rel=1e-6)
    assert summarise_accuracies(np.array([0.25])).ci95 is None
