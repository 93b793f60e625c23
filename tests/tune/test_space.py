"""From flags to trials and their recipes."""

from __future__ import annotations

from typing import Any

import pytest

from mptctl.errors import UsageError
from mptctl.recipe.search import name_of, parse_key_axis, random_points
from mptctl.tune.space import complete_settings, grid, parse_axis, recipe_of
from tests.common import short_recipe

BASE = short_recipe("method.k=1.25", method="mpt-kl")


def test_a_grid_has_every_combination() -> None:
    axes = [parse_axis("distance", "kl,lm", "grid"), parse_axis("k", "0,0.5,4", "grid")]
    points = [complete_settings(BASE, point) for point in grid(axes)]
    assert [name_of(p) for p in points] == ["kl-k0", "kl-k0.5", "kl-k4", "lm-k0", "lm-k0.5", "lm-k4"]


@pytest.mark.parametrize(
    ("point", "name", "changed"),
    [
        ({"distance": "lm"}, "lm-k1.25", {"name": "mpt-lm"}),  # what is not searched is the recipe's
        ({"distance": "lm", "k": 3.0}, "lm-k3", {"name": "mpt-lm", "k": 3.0}),
        ({"method.k": 3.0, "method.lam": 0.5}, "k3-lam0.5", {"k": 3.0, "lam": 0.5}),
        (
            *grid([parse_axis("k", "1.23456", "grid")]),
            "kl-k1.23456",
            {"k": 1.23456},
        ),  # a value is taken as it is
    ],
)
def test_every_setting_reaches_its_key(point: dict[str, Any], name: str, changed: dict[str, object]) -> None:
    settings = complete_settings(BASE, point)
    assert name_of(settings) == name
    assert recipe_of(BASE, settings) == BASE.model_copy(
        update={"method": BASE.method.model_copy(update=changed)}
    )


def test_random_points_lie_in_their_ranges_and_follow_from_the_seed() -> None:
    axes = [parse_axis("k", "0:8", "random"), parse_key_axis("optim.lr=0.001..1:log")]
    points = random_points(axes, 200, seed=3)
    assert len({name_of(p) for p in points}) == 200
    assert all(0 <= float(p["k"]) <= 8 and 0.001 <= float(p["optim.lr"]) <= 1 for p in points)
    # By factors: as many below 0.0316 as above it.
    assert 70 < sum(float(p["optim.lr"]) < 0.0316 for p in points) < 130
    assert random_points(axes, 5, seed=3) == points[:5]
    assert random_points(axes, 5, seed=4) != points[:5]


def test_random_points_end_where_there_are_no_more() -> None:
    axes = [parse_axis("k", "0,1", "random"), parse_axis("distance", "kl,lm", "random")]
    assert len(random_points(axes, 10, seed=0)) == 4


@pytest.mark.parametrize(
    ("name", "text", "search", "message"),
    [
        ("k", "a,b", "grid", "write finite numbers as 0,0.5,1, or a range"),
        ("k", "", "grid", "write finite numbers as 0,0.5,1, or a range"),
        ("k", "nan", "grid", "write finite numbers as 0,0.5,1, or a range"),
        ("k", "0:8", "grid", "a grid needs values"),
        ("k", "8:0", "random", "write finite numbers as 0,0.5,1, or a range"),
        ("k", "1:2:3", "optuna", "write finite numbers as 0,0.5,1, or a range"),
        ("distance", "cosine", "grid", "must be kl, lm"),
    ],
)
def test_a_flag_that_makes_no_sense_is_explained(name: str, text: str, search: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_axis(name, text, search)  # type: ignore[arg-type]


def test_a_setting_that_the_recipe_refuses_is_named() -> None:
    with pytest.raises(UsageError, match=r"k0-tau-1: method\.tau: .*greater than 0"):
        recipe_of(BASE, {"method.k": 0.0, "method.tau": -1.0})
