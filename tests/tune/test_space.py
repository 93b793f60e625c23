"""From flags to trials and their recipes."""

from __future__ import annotations

import pytest

from mptctl.errors import UsageError
from mptctl.recipe.search import name_of, random_points
from mptctl.tune.space import complete_settings, grid, parse_axis, recipe_of
from tests.common import short_recipe

BASE = short_recipe("method.k=1.25", method="mpt-kl")


def test_a_grid_has_every_combination() -> None:
    axes = [parse_axis("distance", "kl,lm", "grid"), parse_axis("k", "0,0.5,4", "grid")]
    points = [complete_settings(BASE, point) for point in grid(axes)]
    assert [name_of(p) for p in points] == ["kl-k0", "kl-k0.5", "kl-k4", "lm-k0", "lm-k0.5", "lm-k4"]


def test_what_is_not_searched_is_the_recipes() -> None:
    (point,) = grid([parse_axis("lr", "0.02", "grid")])
    settings = complete_settings(BASE, point)
    assert settings == {"distance": "kl", "k": 1.25, "lr": 0.02}
    recipe = recipe_of(BASE, settings)
    assert recipe == BASE.model_copy(update={"optim": BASE.optim.model_copy(update={"lr": 0.02})})


def test_every_setting_reaches_its_key() -> None:
    settings = {"distance": "lm", "k": 3.0, "lam": 0.5, "alpha": 0.0, "beta": 2.0, "tau": 4.0, "lr": 0.01}
    recipe = recipe_of(BASE, settings)
    method = recipe.method
    assert (method.name, method.k, method.lam, method.alpha, method.beta, method.tau, recipe.optim.lr) == (
        "mpt-lm", 3.0, 0.5, 0.0, 2.0, 4.0, 0.01,
    )  # fmt: skip
    assert name_of(complete_settings(BASE, settings)) == "lm-k3-lam0.5-alpha0-beta2-tau4-lr0.01"


def test_a_value_that_is_given_is_taken_as_it_is() -> None:
    (point,) = grid([parse_axis("k", "1.23456", "grid")])
    assert recipe_of(BASE, complete_settings(BASE, point)).method.k == 1.23456


def test_random_points_lie_in_their_ranges_and_follow_from_the_seed() -> None:
    axes = [parse_axis("k", "0:8", "random"), parse_axis("lr", "0.001:1", "random")]
    points = random_points(axes, 200, seed=3)
    assert len({name_of(p) for p in points}) == 200
    assert all(0 <= float(p["k"]) <= 8 and 0.001 <= float(p["lr"]) <= 1 for p in points)
    # By factors: as many below 0.0316 as above it.
    assert 70 < sum(float(p["lr"]) < 0.0316 for p in points) < 130
    assert random_points(axes, 5, seed=3) == points[:5]
    assert random_points(axes, 5, seed=4) != points[:5]


def test_random_points_end_where_there_are_no_more() -> None:
    axes = [parse_axis("k", "0,1", "random"), parse_axis("distance", "kl,lm", "random")]
    assert len(random_points(axes, 10, seed=0)) == 4


@pytest.mark.parametrize(
    ("name", "text", "search", "message"),
    [
        ("k", "a,b", "grid", "write values as"),
        ("k", "", "grid", "write values as"),
        ("k", "nan", "grid", "not finite"),
        ("k", "0:8", "grid", "a grid needs values"),
        ("k", "8:0", "random", "LOW below HIGH"),
        ("k", "1:2:3", "optuna", "LOW:HIGH"),
        ("lr", "0:1", "random", "must be positive"),
        ("distance", "cosine", "grid", "must be kl, lm"),
    ],
)
def test_a_flag_that_makes_no_sense_is_explained(name: str, text: str, search: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_axis(name, text, search)  # type: ignore[arg-type]


def test_a_setting_that_the_recipe_refuses_is_named() -> None:
    with pytest.raises(UsageError, match=r"kl-k0-tau-1: method\.tau: .*greater than 0"):
        recipe_of(BASE, {"distance": "kl", "k": 0.0, "tau": -1.0})
