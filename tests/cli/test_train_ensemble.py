"""Ensembles: members that differ in their seed alone, what is done again and what is not, and `--ref ensemble`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from mptctl.data.split import load_split, make_split
from mptctl.models.checkpoint import Checkpoint, load_checkpoint
from mptctl.recipe import differences, load_recipe
from mptctl.training.observer import Observer
from mptctl.training.request import ENSEMBLE_SEED_OFFSET, RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, train_until_killed

KEYS = ("--device", "cpu", "--set", "optim.max_steps=2", "--set", "runtime.threads=1")
SEEDS = ("--set", "runtime.seed=5")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with an old model and an ensemble of two."""
    root = tmp_path_factory.mktemp("ensemble")
    split = make_split("digits", run_root=root)
    keys = ("runtime.device=cpu", "optim.max_steps=2", "runtime.threads=1")
    for name, seed in (("old", 2005), ("ensemble/0", 3005), ("ensemble/1", 3006)):
        recipe = load_recipe("digits", keys, {"runtime.seed": seed})
        train(RunRequest(recipe, split, root / name, only_old_classes=name == "old"), Observer())
    return root


@pytest.fixture
def root(base: Path, tmp_path: Path) -> Path:
    return shutil.copytree(base, tmp_path / "runs")


def best(root: Path, name: str) -> Checkpoint:
    return load_checkpoint(root / name / "best.pt")


def stamps(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_the_members_differ_in_their_seed_alone(
    mptctl: CommandLine, digits_root: Path, tmp_path: Path
) -> None:
    make_split("digits", run_root=tmp_path)
    out = mptctl("train-ensemble", "--size", 3, "--run-root", tmp_path, *KEYS, *SEEDS)
    folders = [tmp_path / "ensemble" / str(i) for i in range(3)]
    assert (out.returncode, out.stdout) == (0, "".join(f"{f / 'best.pt'}\n" for f in folders)), out.stderr
    first, *others = (load_checkpoint(folder / "best.pt") for folder in folders)
    assert first.meta.recipe.runtime.seed == ENSEMBLE_SEED_OFFSET + 5
    assert first.meta.recipe.method.name == "no-treatment"
    assert len(first.meta.class_names) == 10
    for i, other in enumerate(others, 1):
        assert differences(first.meta.recipe, other.meta.recipe) == [("runtime.seed", 3005, 3005 + i)]
        assert not torch.equal(first.model["fc.weight"], other.model["fc.weight"])


def test_finished_members_are_left_alone_also_at_another_speed(mptctl: CommandLine, root: Path) -> None:
    before = stamps(root / "ensemble")
    speed = ("--set", "runtime.threads=0", "--set", "data.prefetch=4")
    out = mptctl("train-ensemble", "--size", 3, "--run-root", root, *KEYS, *SEEDS, *speed, "--json")
    assert out.returncode == 0, out.stderr
    found = json.loads(out.stdout)
    assert found["run"] == str(root / "ensemble")
    members = [(member["run"], member["seed"], member["state"]) for member in found["members"]]
    assert members == [
        (str(root / "ensemble" / "0"), 3005, "kept"),
        (str(root / "ensemble" / "1"), 3006, "kept"),
        (str(root / "ensemble" / "2"), 3007, "trained"),
    ]
    assert found["members"][0]["best_val_error"] == best(root, "ensemble/0").meta.best_error
    after = stamps(root / "ensemble")
    assert {path: after[path] for path in before} == before
    assert "0: finished before" in out.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "optim.lr=0.05"), "optim.lr: 0.1 -> 0.05"),
        (("--seed", "3", "--resume"), "runtime.seed: 3006 -> 4"),
        (("--set", "optim.max_steps=3"), "optim.max_steps: 2 -> 3"),
    ],
)
def test_a_member_of_another_recipe_is_refused_by_name_before_anything_is_trained(
    mptctl: CommandLine, root: Path, words: tuple[str, ...], message: str
) -> None:
    shutil.rmtree(root / "ensemble" / "0")
    before = stamps(root)
    out = mptctl("train-ensemble", "--size", 2, "--run-root", root, *KEYS, *SEEDS, *words)
    assert (out.returncode, out.stdout, out.stderr.count("\n")) == (5, "", 1)
    assert f"{root / 'ensemble' / '1' / 'best.pt'}: this is another run: {message}" in out.stderr
    assert stamps(root) == before


def test_a_member_of_another_split_is_refused_by_name(mptctl: CommandLine, root: Path) -> None:
    make_split("digits", run_root=root, seed=9, overwrite=True)
    out = mptctl("train-ensemble", "--size", 2, "--run-root", root, *KEYS, *SEEDS)
    assert (out.returncode, out.stderr.count("\n")) == (5, 1)
    assert f"{root / 'ensemble' / '0' / 'best.pt'}: this is another run: split_fingerprint" in out.stderr


def killed(root: Path, name: str, event: str, step: int) -> None:
    """Put a run of the recipe of these tests there that was killed when it had written a line."""
    shutil.rmtree(root / name, ignore_errors=True)
    keys = (
        "runtime.device=cpu", "optim.max_steps=2", "runtime.threads=1", "runtime.checkpoint_every_steps=1",
    )  # fmt: skip
    recipe = load_recipe("digits", keys, {"runtime.seed": 3006})
    train_until_killed(RunRequest(recipe, load_split(root), root / name), event, step)


def test_an_interrupted_member_goes_on_with_resume_alone(mptctl: CommandLine, root: Path) -> None:
    whole = best(root, "ensemble/1")
    killed(root, "ensemble/1", "checkpoint", 1)
    flags = ("train-ensemble", "--size", 2, "--run-root", root)
    before = stamps(root)
    refused = mptctl(*flags, *KEYS, *SEEDS)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"{root / 'ensemble' / '1'}: already holds a run; go on with --resume" in refused.stderr
    assert stamps(root) == before
    out = mptctl(*flags, "--resume", "--json")  # by the member's own recipe
    assert out.returncode == 0, out.stderr
    found = json.loads(out.stdout)["members"]
    assert [(member["state"], member["seed"]) for member in found] == [("kept", 3005), ("resumed", 3006)]
    now = best(root, "ensemble/1")
    assert all(torch.equal(now.model[key], whole.model[key]) for key in whole.model)


def test_a_member_without_a_checkpoint_starts_anew(mptctl: CommandLine, root: Path) -> None:
    for name in ("best.pt", "last.pt", "metrics.jsonl"):
        (root / "ensemble" / "1" / name).unlink()
    out = mptctl("train-ensemble", "--size", 2, "--run-root", root, *KEYS, *SEEDS, "--resume", "--json")
    assert out.returncode == 0, out.stderr
    assert [member["state"] for member in json.loads(out.stdout)["members"]] == ["kept", "trained"]


def test_members_beyond_the_size_are_named(mptctl: CommandLine, root: Path) -> None:
    out = mptctl("train-ensemble", "--size", 1, "--run-root", root, *KEYS, *SEEDS)
    assert out.returncode == 0, out.stderr
    assert "1 is there too" in out.stderr


@pytest.mark.parametrize("flag", [(), ("--resume",), ("--overwrite",)])
def test_a_run_is_no_ensemble(mptctl: CommandLine, root: Path, flag: tuple[str, ...]) -> None:
    before = stamps(root)
    out = mptctl("train-ensemble", "--size", 2, "--run-root", root, "--name", "old", *KEYS, *flag)
    assert (out.returncode, out.stderr.count("\n")) == (2, 1)
    assert f"{root / 'old'}: holds a run, not an ensemble's members" in out.stderr
    assert stamps(root) == before


def test_overwrite_trains_all_members_anew(mptctl: CommandLine, root: Path) -> None:
    flags = ("--run-root", root, *KEYS, *SEEDS, "--set", "optim.lr=0.05", "--overwrite")
    out = mptctl("train-ensemble", "--size", 2, *flags)
    assert out.returncode == 0, out.stderr
    assert [best(root, f"ensemble/{i}").meta.recipe.optim.lr for i in (0, 1)] == [0.05, 0.05]


def test_a_dry_run_says_which_members_would_be_trained(mptctl: CommandLine, root: Path) -> None:
    before = stamps(root)
    flags = ("train-ensemble", "--size", 4, "--run-root", root, *KEYS, *SEEDS, "--dry-run")
    found = json.loads(mptctl(*flags, "--json").stdout)
    assert [member["state"] for member in found["members"]] == ["kept", "kept", "trained", "trained"]
    assert (found["first"]["run"], found["first"]["seed"]) == (str(root / "ensemble" / "2"), 3007)
    said = mptctl(*flags)
    assert (said.returncode, said.stderr) == (0, "")
    assert "0, 1 kept; 2, 3 trained" in said.stdout
    assert said.stdout.endswith("nothing was written\n")
    assert stamps(root) == before


METHODS = [("train-baseline", "elodi", "--set", "method.elodi_start_epoch=0"), ("train-mpt",)]


@pytest.mark.parametrize("verb", METHODS, ids=lambda verb: " ".join(verb[:2]))
def test_the_ensembles_folder_names_all_members(
    mptctl: CommandLine, root: Path, verb: tuple[str, ...]
) -> None:
    flags = ("--run-root", root, *KEYS, "--set", "runtime.cache_precision=fp32")
    members = ("--ref", "ensemble/0", "--ref", "ensemble/1")
    for name, refs in (
        ("by-folder", ("--ref", "ensemble")),
        ("by-path", ("--ref", root / "ensemble")),
        ("by-name", members),
        ("cached", ("--ref", "ensemble", "--cache-teachers")),
        ("one", ("--ref", "ensemble/0")),
    ):
        out = mptctl(*verb, *flags, *refs, "--name", name)
        assert out.returncode == 0, out.stderr
    digests = {f"ref{i}": best(root, f"ensemble/{i}").digest for i in range(2)}
    found = {name: best(root, name) for name in ("by-folder", "by-path", "by-name", "cached", "one")}
    assert found["by-folder"].meta.teachers == {"old": best(root, "old").digest} | digests
    for name in ("by-path", "by-name", "cached"):
        assert found[name].meta.teachers == found["by-folder"].meta.teachers
        weights = found[name].model
        assert all(torch.equal(weights[key], found["by-folder"].model[key]) for key in weights), name
    weights = found["one"].model
    assert not all(torch.equal(weights[key], found["by-folder"].model[key]) for key in weights)
    # One key for the mean: the cache holds one row of logits a picture, not one a member.
    kept = [path.parent.name for path in (root / "cache" / "teachers").rglob("epoch-*.bin")]
    assert len(set(kept)) == 3  # the old model's and the mean's in training, the old model's in validation


def test_ten_members_are_in_the_order_of_their_numbers(root: Path) -> None:
    from mptctl.models.run_folder import find_references

    for i in range(2, 11):
        shutil.copytree(root / "ensemble" / "0", root / "ensemble" / str(i))
    (root / "ensemble" / "notes").mkdir()
    found = find_references(["ensemble"], root)
    assert found == tuple(root / "ensemble" / str(i) / "best.pt" for i in range(11))


def test_a_folder_without_finished_members_is_refused_by_name(mptctl: CommandLine, root: Path) -> None:
    (root / "empty").mkdir()
    shutil.copytree(root, root.parent / "study" / "0")  # seeds' folders are no members
    killed(root, "ensemble/1", "checkpoint", 1)
    for ref, message in (
        ("empty", f"{root / 'empty'}: holds no finished member"),
        (str(root.parent / "study"), f"{root.parent / 'study'}: holds no finished member"),
        ("nothing", "nothing: no such run or file"),
        ("ensemble", f"{root / 'ensemble' / '1'}: is not finished"),
    ):
        out = mptctl("train-mpt", "--run-root", root, *KEYS, "--ref", ref)
        assert (out.returncode, out.stdout, out.stderr.count("\n")) == (5, "", 1), (ref, out.stderr)
        assert message in out.stderr


def test_a_run_that_is_named_by_its_path_needs_no_folder_of_that_name(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mptctl.models.run_folder import find_references

    (root / "given").mkdir()
    shutil.copytree(root / "ensemble" / "0", tmp_path / "given")
    monkeypatch.chdir(tmp_path)
    assert find_references(["given"], root) == (Path("given") / "best.pt",)


def test_a_member_whose_metrics_are_damaged_is_named(mptctl: CommandLine, root: Path) -> None:
    metrics = root / "ensemble" / "1" / "metrics.jsonl"
    metrics.write_bytes(b"\xff\xfe\n")
    for words in (("train-mpt", "--ref", "ensemble"), ("train-ensemble", "--size", "2", *SEEDS)):
        out = mptctl(*words, "--run-root", root, *KEYS)
        assert (out.returncode, out.stdout, out.stderr.count("\n")) == (5, "", 1), out.stderr
        assert f"{metrics}: cannot be read" in out.stderr


def test_a_member_is_named_once(mptctl: CommandLine, root: Path) -> None:
    out = mptctl("train-mpt", "--run-root", root, *KEYS, "--ref", "ensemble", "--ref", "ensemble/1")
    assert (out.returncode, out.stderr.count("\n")) == (2, 1)
    assert f"{root / 'ensemble' / '1' / 'best.pt'}: is named twice" in out.stderr
