"""`fewshot` on trained runs: episodes and the analysis."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mptctl.data.split import make_split
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, Log, short_recipe

HEADS = {
    "old": ("model.head=linear",),
    "cosine": ("model.head=cosine", "model.head_margin=-0.1"),
    "product": ("model.head=linear-margin", "model.head_margin=0.1", "optim.lr=0.02"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with models of the old digits, one with each head; classes are not in order."""
    root = tmp_path_factory.mktemp("trained")
    split = make_split("digits", run_root=root, val_fraction=0.3, order="random", seed=7)
    assert list(split.classes.names) != sorted(split.classes.names)
    for name, keys in HEADS.items():
        recipe = short_recipe("optim.epochs=6", *keys)
        train(RunRequest(recipe, split, root / name, only_old_classes=True), Log())
    return root


@pytest.mark.parametrize("name", HEADS)
def test_novel_digits_are_told_apart_better_than_by_chance(
    name: str, root: Path, mptctl: CommandLine
) -> None:
    flags = ("--way", "4", "--shot", "5", "--episodes", "30", "--run-root", root, "--json")
    report = json.loads(mptctl("fewshot", name, *flags).stdout)
    assert len(report["novel"]) == 5
    assert report["head"] == ("cosine" if name == "cosine" else "linear")
    assert (report["episodes"], report["way"], report["query"]) == (30, 4, 16)
    for found in (report, report["centroid"]):
        assert found["accuracy"] - found["ci95"] > 0.4
        assert 0 < found["ci95"] < 0.1
    again, other = (json.loads(mptctl("fewshot", name, *flags, "--seed", seed).stdout) for seed in (0, 1))
    assert again["accuracy"] == report["accuracy"] != other["accuracy"]


def test_the_analysis_draws_the_episodes_of_fewshot_and_a_figure_of_several_runs(
    root: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    figure = tmp_path / "margins.png"
    few = ("--episodes", 20, "--run-root", root, "--json")
    found = json.loads(mptctl("fewshot", *HEADS, "--analysis", "--out", figure, *few).stdout)
    assert [(run["run"], run["head"], run["margin"]) for run in found["runs"]] == [
        ("old", "linear", 0.0), ("cosine", "cosine", -0.1), ("product", "linear-margin", 0.1),
    ]  # fmt: skip
    for run in found["runs"]:
        assert (run["base"]["classes"], run["novel"]["classes"]) == (5, 5)
        assert run["base"]["ratio"] > run["novel"]["ratio"] > 0
        for shot in (1, 5):
            alone = json.loads(mptctl("fewshot", run["run"], "--shot", shot, *few).stdout)
            got = run["novel_accuracy"][str(shot)]
            assert (got["accuracy"], got["ci95"]) == (alone["accuracy"], alone["ci95"])
        by_itself = json.loads(mptctl("evaluate", run["run"], "--run-root", root, "--json").stdout)
        assert run["base_accuracy"] == by_itself["accuracy"]
    assert figure.read_bytes()[:4] == b"\x89PNG"
    done = mptctl("fewshot", "old", "--analysis", "--episodes", 2, "--run-root", root)
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
    assert done.stdout.splitlines()[-1] == str(root / "discriminability.png")
