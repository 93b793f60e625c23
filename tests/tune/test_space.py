"""From flags to trials and their recipes."""

from __future__ import annotations

import pytest

from mptctl.errors import UsageError
from mptctl.recipe.search import name_of, parse_key_axis, random_points, recipe_at
from mptctl.tune.space import complete_settings, grid, mpt_axes
from tests.common import short_recipe

BASE = short_recipe("method.k=1.25", method="mpt-kl")


def test_a_grid_has_every_combination() -> None:
    points = [complete_settings(BASE, point) for point in grid(mpt_axes("0,0.5,4", "lm, kl,kl"))]
    assert [name_of(p) for p in points] == [
        "mpt-kl-k0", "mpt-kl-k0.5", "mpt-kl-k4", "mpt-lm-k0", "mpt-lm-k0.5", "mpt-lm-k4",
    ]  # fmt: skip


def test_what_is_not_searched_is_the_recipes() -> None:
    (point,) = grid(mpt_axes("3", None))
    settings = complete_settings(BASE, point)
    assert settings == {"method.name": "mpt-kl", "method.k": 3}
    assert recipe_at(BASE, settings) == BASE.model_copy(
        update={"method": BASE.method.model_copy(update={"k": 3.0})}
    )


def test_every_setting_reaches_its_key() -> None:
    settings = {"method.name": "mpt-lm", "method.k": 1.23456, "method.lam": 0.5, "optim.lr": 0.01}
    recipe = recipe_at(BASE, settings)
    method = recipe.method
    assert (method.name, method.k, method.lam, recipe.optim.lr) == ("mpt-lm", 1.23456, 0.5, 0.01)
    assert name_of(settings) == "mpt-lm-k1.23456-lam0.5-lr0.01"


def test_random_points_lie_in_their_ranges_and_follow_from_the_seed() -> None:
    axes = [*mpt_axes("0..8", None), parse_key_axis("optim.lr=0.001..1:log")]
    points = random_points(axes, 200, seed=3)
    assert len({name_of(p) for p in points}) == 200
    assert all(0 <= float(p["method.k"]) <= 8 and 0.001 <= float(p["optim.lr"]) <= 1 for p in points)
    # By factors: as many below 0.0316 as above it.
    assert 70 < sum(float(p["optim.lr"]) < 0.0316 for p in points) < 130
    assert random_points(axes, 5, seed=3) == points[:5]
    assert random_points(axes, 5, seed=4) != points[:5]


def test_random_points_end_where_there_are_no_more() -> None:
    assert len(random_points(mpt_axes("0,1", "kl,lm"), 10, seed=0)) == 4


@pytest.mark.parametrize(
    ("k", "distance", "message"),
    [
        ("", None, "--k : write KEY=a,b,c or KEY=LOW..HIGH"),
        ("a,1", None, "--k a,1: write numbers"),
        ("8..0", None, r"--k 8\.\.0: a range is LOW..HIGH with LOW below HIGH"),
        ("0..nan", None, "--k 0..nan: a range is LOW..HIGH"),
        ("1", "cosine", "--distance cosine: must be kl, lm"),
    ],
)
def test_a_flag_that_makes_no_sense_is_explained(k: str, distance: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mpt_axes(k, distance)


@pytest.mark.parametrize(("k", "message"), [("0,nan", "nan"), ("-1", "greater than")])
def test_a_k_that_the_recipe_refuses_is_named(k: str, message: str) -> None:
    with pytest.raises(UsageError, match=rf"method\.k: .*{message}|method\.k.*{message}"):
        [recipe_at(BASE, point) for point in grid(mpt_axes(k, None))]
