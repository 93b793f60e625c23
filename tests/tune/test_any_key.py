"""A search of any keys of any method: how axes are read, what is refused, and one from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mptctl.errors import UsageError
from mptctl.recipe import load_recipe
from mptctl.recipe.search import Axis, name_of, parse_key_axis, random_points, recipe_at
from tests.common import CommandLine, digits_with_teachers, short_recipe


def test_an_axis_is_values_or_a_range_or_a_range_by_factors() -> None:
    assert parse_key_axis("method.tau=1,5,20") == Axis(name="method.tau", values=(1.0, 5.0, 20.0))
    assert parse_key_axis("optim.name=sgd, adamw") == Axis(name="optim.name", values=("sgd", "adamw"))
    alike = parse_key_axis("method.lam=1.0000001,1.0000002,2")  # their trials would have one name
    assert [name_of({"method.lam": value}) for value in alike.values] == ["lam1", "lam2"]
    assert parse_key_axis("method.lam=.1..10") == Axis(name="method.lam", range=(0.1, 10.0))
    lam = parse_key_axis("method.lam=0.01..100:log")
    assert lam == Axis(name="method.lam", range=(0.01, 100.0), log=True)
    drawn = sorted(float(point["method.lam"]) for point in random_points([lam], 40, seed=1))
    assert 0.1 < drawn[20] < 10  # the middle of the factors, not of the numbers
    assert drawn[10] < 1


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("method.lamb=1", "did you mean method.lam"),
        ("method.name=pct-kl", "no key of the recipe that can be searched"),
        ("method.lam=2..1", "LOW below HIGH"),
        ("method.lam=a..b", "LOW below HIGH"),
        ("method.lam=0..1:log", "must be positive, since it is searched by factors"),
        ("optim.patience=1..5", "is a whole number; name its values"),
        ("optim.epochs=1..9", "is a whole number; name its values, such as optim.epochs=1,2,4"),
        ("method.lam=1,,2", "write KEY=a,b,c or KEY=LOW..HIGH"),
    ],
)
def test_an_axis_that_makes_no_sense_is_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_key_axis(word)


def test_a_trial_is_called_by_the_ends_of_its_keys_and_has_their_values() -> None:
    settings = {"method.lam": 0.5, "optim.nesterov": "true", "optim.name": "sgd"}
    assert name_of(settings) == "lam0.5-nesterovtrue-namesgd"
    assert name_of({"optim.name": "sgd", "criterion.name": "a/b"}) == "optim.namesgd-criterion.namea_b"
    recipe = recipe_at(short_recipe(method="pct-kl"), settings)
    assert (recipe.method.lam, recipe.optim.nesterov, recipe.method.name) == (0.5, True, "pct-kl")
    with pytest.raises(UsageError, match=r"method\.lam: must be greater than or equal to 0"):
        recipe_at(recipe, {"method.lam": -1.0})


SEARCH = ("--search", "method.lam=0.1..10:log")


@pytest.mark.slow
def test_a_rival_is_searched_and_its_recipe_trains(mptctl: CommandLine, tmp_path: Path) -> None:
    """By Optuna, with early stops; pct-kl learns from the old model alone, and the reference bounds the error."""
    split = digits_with_teachers(tmp_path / "runs", val_fraction=0.2, epochs=2)
    where = ("--run-root", split.run_root)
    keys = ("--set", "optim.max_steps=4", "--set", "runtime.device=cpu", "--max-er-increase", "100")
    words = ("tune", "pct-kl", *SEARCH, "--search", "method.tau=1,5", "--trials", "3", *where, *keys)
    planned = mptctl(*words, "--dry-run")
    assert "3 trials: pct-kl-lam" in planned.stdout, planned.stderr
    words = (*words, "--sampler", "optuna", "--asha")
    done = mptctl(*words, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report["trials"]) == 3
    assert {trial["status"] for trial in report["trials"]} <= {"done", "stopped"}
    assert all(0.1 <= trial["settings"]["method.lam"] <= 10 for trial in report["trials"])
    assert {key for trial in report["trials"] for key in trial["settings"]} == {
        "method.name",
        "method.lam",
        "method.tau",
    }
    best = load_recipe(report["best_recipe"])
    chosen = next(trial for trial in report["trials"] if trial["name"] == report["choice"])
    assert best.method.lam == pytest.approx(chosen["settings"]["method.lam"])
    page = (split.run_root / "tune" / "tune.html").read_text()
    assert report["choice"] in page
    again = mptctl("train-baseline", "pct-kl", "--recipe", report["best_recipe"], *where, "--print-recipe")
    assert again.returncode == 0, again.stderr
    assert mptctl(*words, "--resume", "--json").returncode == 0
    other = mptctl("tune", "mpt-kl", *words[2:], "--resume")
    assert other.returncode == 2
    assert "this is another search: method.name: pct-kl -> mpt-kl" in other.stderr
