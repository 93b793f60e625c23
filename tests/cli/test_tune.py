"""`mptctl tune` as it is typed: what is refused before anything starts, and what is said of a plan."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from mptctl.data.split import make_split
from mptctl.recipe import load_recipe
from tests.common import CommandLine, digits_with_teachers


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root of the digits with teachers of one epoch."""
    return digits_with_teachers(tmp_path_factory.mktemp("tune"), val_fraction=0.1, epochs=1).run_root


@pytest.fixture
def runs(models: Path, tmp_path: Path) -> Path:
    return shutil.copytree(models, tmp_path / "runs")


def test_a_plan_names_its_trials_and_writes_nothing(mptctl: CommandLine, runs: Path) -> None:
    before = sorted(runs.rglob("*"))
    done = mptctl("tune", "--run-root", runs, "--dry-run", "--k", "0,4", "--distance", "kl,lm")
    assert done.returncode == 0, done.stderr
    assert "4 trials: mpt-kl-k0, mpt-kl-k4, mpt-lm-k0, mpt-lm-k4" in done.stdout
    assert "nothing was written" in done.stdout
    assert sorted(runs.rglob("*")) == before
    default = mptctl("tune", "--run-root", runs, "--dry-run")
    assert (
        "7 trials: mpt-kl-k0, mpt-kl-k0.5, mpt-kl-k1, mpt-kl-k1.5, mpt-kl-k2, mpt-kl-k4, mpt-kl-k8"
        in default.stdout
    )
    found = mptctl("tune", "--run-root", runs, "--dry-run", "--sampler", "optuna", "--trials", "30")
    assert "30 trials, chosen as they go" in found.stdout


def test_a_plan_refuses_a_folder_that_the_search_would_refuse(mptctl: CommandLine, runs: Path) -> None:
    """A training run, and an earlier search that is neither gone on with nor thrown away."""
    (runs / "tune").mkdir()
    (runs / "tune" / "trials.json").write_text('{"search": "grid", "trials": [], "split_fingerprint": "0"}')
    for name, said in (("ref", "and no search of mptctl's"), ("tune", "already holds a search; go on with")):
        flags = ("tune", "--run-root", runs, "--k", "0,4", "--name", name, "--old", "old", "--ref", "ref")
        flags = flags if name == "tune" else (*flags[:-1], shutil.copytree(runs / "ref", runs / "other"))
        planned, begun = mptctl(*flags, "--dry-run"), mptctl(*flags)
        assert (planned.returncode, planned.stdout) == (2, "")
        assert said in planned.stderr
        assert planned.stderr.splitlines()[-1] == begun.stderr.splitlines()[-1]
    anew = mptctl("tune", "--run-root", runs, "--k", "0,4", "--dry-run", "--overwrite")
    assert anew.returncode == 0, anew.stderr


def test_the_common_recipe_is_printed(mptctl: CommandLine, runs: Path, tmp_path: Path) -> None:
    flags = ("--set", "optim.epochs=7", "--seed", "3", "--no-cache-teachers")
    done = mptctl("tune", "--run-root", runs, "--print-recipe", *flags)
    (tmp_path / "printed.yaml").write_text(done.stdout)
    recipe = load_recipe(str(tmp_path / "printed.yaml"))
    assert (recipe.method.name, recipe.optim.epochs, recipe.runtime.seed) == ("mpt-kl", 7, 3)
    assert not recipe.runtime.cache_teachers
    assert "cache_teachers: true" in mptctl("tune", "--run-root", runs, "--print-recipe").stdout


def test_without_a_validation_part_it_refuses(mptctl: CommandLine, runs: Path) -> None:
    make_split("digits", run_root=runs, val_fraction=0.0, overwrite=True)
    done = mptctl("tune", "--run-root", runs)
    assert done.returncode == 2
    assert "tune never looks at the test set" in done.stderr
    assert "--val-fraction" in done.stderr
    assert not (runs / "tune").exists()


def test_a_cluster_that_does_not_answer_is_named(mptctl: CommandLine, runs: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = mptctl("tune", "--run-root", runs, "--device", "cpu", "--ray-address", address)
    assert done.returncode == 2
    assert f"--ray-address {address}: nobody answers there" in done.stderr


def test_an_earlier_search_is_not_overwritten_unasked(mptctl: CommandLine, runs: Path) -> None:
    (runs / "tune").mkdir()
    (runs / "tune" / "trials.json").write_text("{}")
    done = mptctl("tune", "--run-root", runs)
    assert done.returncode == 2
    assert "--overwrite" in done.stderr
    damaged = mptctl("tune", "--run-root", runs, "--resume", "--device", "cpu")
    assert damaged.returncode == 2
    assert "trials.json: cannot be read" in damaged.stderr
    assert (runs / "tune" / "trials.json").read_text() == "{}"
