"""The verbs that train: their flags, the recipe that they make of them, and what a stopped run tells to type."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from mptctl.cli.messages import resume_command
from mptctl.data.split import Split, make_split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.recipe import load_recipe
from tests.common import CommandLine

VERBS = ("train-old", "train-ref", "train-mpt", "train-baseline no-treatment", "tune", "train-ensemble")
OPENED: list[str] = []
sys.addaudithook(lambda event, given: OPENED.append(str(given[0])) if event == "open" else None)


@pytest.fixture
def recipe(mptctl: CommandLine, digits_root: Path) -> Any:
    """The recipe that a verb prints, as plain data."""

    def printed(verb: str, *flags: object) -> Any:
        out = mptctl(*verb.split(), "--run-root", digits_root, "--print-recipe", *flags)
        assert out.returncode == 0, out.stderr
        return yaml.safe_load(out.stdout)

    return printed


@pytest.mark.parametrize("verb", VERBS)
def test_flags_win_over_set_and_set_over_the_file_which_is_read_once(
    verb: str, recipe: Any, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("optim: {lr: 0.5, epochs: 3}\nruntime: {device: cuda, seed: 9}\n")
    keys = ("--set", "optim.epochs=1e+1", "--set", "runtime.seed=8", "--device", "cpu", "--seed", "7")
    OPENED.clear()
    found = recipe(verb, "--recipe", file, *keys)
    assert OPENED.count(str(file)) == 1
    assert (found["optim"]["lr"], found["optim"]["epochs"]) == (0.5, 10)
    assert (found["runtime"]["device"], found["runtime"]["seed"]) == ("cpu", 7)


def test_one_seed_for_all_verbs_makes_no_twins(recipe: Any) -> None:
    seeds = [
        recipe(verb, *flag)["runtime"]["seed"]
        for verb in VERBS
        for flag in (("--set", "runtime.seed=3"), ("--seed", "3"))
    ]
    assert seeds == [2003, 3, 1003, 3, 3, 3, 3, 3, 3, 3, 3003, 3]


def test_the_method_is_the_verbs(recipe: Any, tmp_path: Path) -> None:
    tuned = tmp_path / "best.yaml"
    tuned.write_text("method: {name: mpt-lm, k: 2}\n")

    def method(*words: object) -> tuple[str, float]:
        found = recipe(*words)["method"]
        return found["name"], found["k"]

    own = load_recipe("digits").method.k
    assert method("train-mpt") == ("mpt-kl", own)
    assert method("train-mpt", "--distance", "lm", "--k", "0") == ("mpt-lm", 0.0)
    assert method("train-mpt", "--recipe", tuned) == ("mpt-lm", 2.0)
    assert method("train-mpt", "--recipe", tuned, "--distance", "kl") == ("mpt-kl", 2.0)
    assert method("train-mpt", "--set", "method.name=mpt-lm") == ("mpt-lm", own)
    assert method("train-old", "--recipe", tuned) == ("no-treatment", 2.0)
    assert method("train-baseline elodi", "--recipe", tuned) == ("elodi", 2.0)
    assert method("train-baseline mpt-nodistill", "--k", "3") == ("mpt-nodistill", 3.0)


def test_teacher_logits_are_cached_where_it_is_asked_for(recipe: Any) -> None:
    def cached(*words: object) -> bool:
        found: bool = recipe(*words)["runtime"]["cache_teachers"]
        return found

    assert not cached("train-mpt")
    assert cached("train-mpt", "--cache-teachers")
    assert cached("train-baseline pct-kl", "--set", "runtime.cache_teachers=true")
    assert cached("tune")
    assert not cached("tune", "--no-cache-teachers")


def test_a_run_goes_on_by_its_own_recipe_and_its_own_teachers(mptctl: CommandLine, tmp_path: Path) -> None:
    """Nothing but its name is said again, although recipe, seed and teachers were not those taken by default."""
    make_split("digits", run_root=tmp_path)
    root, keys = (
        ("--run-root", tmp_path),
        ("--set", "optim.max_steps=1", "--set", "runtime.threads=1", "--device", "cpu"),
    )
    for verb, name in (("train-old", "first"), ("train-ref", "second"), ("train-ref", "third")):
        done = mptctl(verb, *root, *keys, "--name", name, "--seed", len(name))
        assert done.returncode == 0, done.stderr
    teachers = ("--old", "first", "--ref", "third", "--ref", "second")
    lr = ("--set", "optim.lr=0.01", "--seed", 7)
    done = mptctl("train-mpt", "--distance", "lm", "--k", 2, "--name", "mine", *root, *keys, *lr, *teachers)
    assert done.returncode == 0, done.stderr
    again = mptctl("train-mpt", "--name", "mine", "--resume", *root)
    assert (again.returncode, again.stdout) == (0, f"{tmp_path / 'mine' / 'best.pt'}\n"), again.stderr
    assert "mine: already finished: 1 steps; nothing was left to train" in again.stderr
    other = mptctl("train-mpt", "--name", "mine", "--resume", "--set", "optim.lr=0.02", *root)
    assert (other.returncode, "optim.lr: 0.01 -> 0.02" in other.stderr) == (5, True)
    twin = mptctl("train-ref", "--name", "second", "--resume", *root)  # its seed is not moved again
    assert twin.returncode == 0, twin.stderr


def test_a_run_ends_with_its_best_epoch_and_the_next_command(mptctl: CommandLine, tmp_path: Path) -> None:
    make_split("digits", run_root=tmp_path)
    root, keys = (
        ("--run-root", tmp_path),
        ("--set", "optim.epochs=2", "--set", "runtime.threads=1", "--device", "cpu"),
    )
    old = mptctl("train-old", *root, *keys)
    assert old.returncode == 0, old.stderr
    *_, result, following = old.stderr.splitlines()
    assert re.fullmatch(r"old: best epoch [12] of 2: val error .* % \(\d+ of 45\), old classes .*", result)
    assert following == f"next: mptctl train-ref --run-root {tmp_path}"
    assert "brought" not in old.stderr  # what the loader did is said where it held up a long run
    new = mptctl("train-baseline", "no-treatment", *root, *keys)
    *_, result, following = new.stderr.splitlines()
    assert re.search(r", NFR .* % \(\d+ of \d+\)$", result)
    assert following == f"next: mptctl evaluate old no-treatment --run-root {tmp_path}"


def test_the_criterion_of_the_recipe_trains_and_stands_in_the_checkpoint(
    mptctl: CommandLine, tmp_path: Path
) -> None:
    make_split("digits", run_root=tmp_path)
    keys = (
        "--set", "optim.max_steps=2", "--set", "runtime.threads=1", "--device", "cpu", "--run-root", tmp_path,
    )  # fmt: skip
    for verb in (("train-old",), ("train-ref",), ("train-mpt", "--distance", "kl")):
        trained = {}
        for name in ("ce", "ls"):
            flags = ("--name", f"{verb[0]}-{name}", "--set", f"criterion.name={name}")
            # The teachers are the same for both.
            teachers = ("--old", "train-old-ce", "--ref", "train-ref-ce") if verb[0] == "train-mpt" else ()
            out = mptctl(*verb, *flags, *teachers, *keys)
            assert out.returncode == 0, out.stderr
            trained[name] = load_checkpoint(tmp_path / f"{verb[0]}-{name}" / "last.pt")
            assert trained[name].meta.recipe.criterion.name == name
        ce, ls = (trained[name].model for name in ("ce", "ls"))
        assert any(not torch.equal(ce[key], ls[key]) for key in ce), verb


def test_a_stopped_run_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["/usr/bin/mptctl", "train-mpt", "--name", "my run", "--overwrite"]
    monkeypatch.setattr(sys, "argv", words)
    assert shlex.split(resume_command()) == ["mptctl", "train-mpt", "--name", "my run", "--resume"]


@pytest.mark.parametrize("distance", ["kl", "lm"])
def test_an_update_without_a_reference_may_begin_with_the_old_model(distance: str, recipe: Any) -> None:
    found = recipe("train-mpt", "--no-ref", "--init", "old", "--distance", distance)
    assert found["method"]["name"] == f"mpt-{distance}-noref"
    assert found["method"]["init"] == "old"


@pytest.mark.parametrize("init", ["fresh", "old"])
def test_a_plain_update_may_begin_with_the_old_model(init: str, recipe: Any) -> None:
    assert recipe("train-baseline no-treatment", "--init", init)["method"]["init"] == init
    assert recipe("train-baseline no-treatment", "--set", "method.init=old")["method"]["init"] == "old"
    both = ("--set", "method.init=old", "--init", "fresh")
    assert recipe("train-baseline no-treatment", *both)["method"]["init"] == "fresh"


def test_a_plain_update_begins_with_the_reference_without_being_told_its_name(
    mptctl: CommandLine, digits: Split
) -> None:
    root = ("--run-root", digits.run_root, "--set", "runtime.threads=1", "--device", "cpu")
    update = ("train-baseline", "no-treatment", *root, "--init", "ref", "--set", "optim.epochs=0")
    refused = mptctl(*update)
    assert (refused.returncode, "train-ref" in refused.stderr) == (5, True)
    assert mptctl("train-ref", *root, "--set", "optim.max_steps=1").returncode == 0
    done = mptctl(*update)
    assert done.returncode == 0, done.stderr
    ref, new = (load_checkpoint(digits.run_root / run / "best.pt").model for run in ("ref", "no-treatment"))
    assert all(torch.equal(tensor, new[key]) for key, tensor in ref.items())


def test_an_update_without_a_reference_goes_on_without_a_flag(mptctl: CommandLine, digits: Split) -> None:
    root = ("--run-root", digits.run_root)
    keys = ("--set", "optim.max_steps=1", "--set", "runtime.threads=1", "--device", "cpu")
    assert mptctl("train-old", *root, *keys).returncode == 0
    update = ("--no-ref", "--init", "old", "--k", 1.5, "--name", "mine")
    done = mptctl("train-mpt", *root, *keys, *update)
    assert done.returncode == 0, done.stderr
    resume = ("train-mpt", *root, "--name", "mine", "--resume")
    again = mptctl(*resume)  # and there is no run named ref
    assert again.returncode == 0, again.stderr
    assert "mine: already finished: 1 steps" in again.stderr
    assert mptctl("train-ref", *root, *keys).returncode == 0
    assert mptctl(*resume).returncode == 0  # nor is one taken that is there
    other = mptctl(*resume, "--ref", "ref")
    assert other.returncode == 5
    assert "method.name: mpt-kl-noref -> mpt-kl" in other.stderr


def test_a_run_to_resume_that_is_not_there_is_named_before_recipe_and_teachers(
    mptctl: CommandLine, digits: Split
) -> None:
    root = ("--run-root", digits.run_root)
    began = mptctl("train-ref", *root, "--set", "optim.max_steps=1", "--name", "first")
    assert began.returncode == 0, began.stderr
    resume = (*root, "--resume", "--name", "frist", "--set", "optim.batch_size=100000")
    for verb in ("train-old", "train-mpt --no-ref", "train-baseline elodi"):
        refused = mptctl(*verb.split(), *resume)
        assert (refused.returncode, refused.stderr.count("\n")) == (5, 1)
        assert f"{digits.run_root / 'frist'}: nothing to resume: there is no such run" in refused.stderr
        assert "runs there: first; did you mean first?" in refused.stderr
        assert not (digits.run_root / "frist").exists()


def test_a_finished_run_that_was_cleaned_is_not_told_to_begin_anew_in_its_folder(
    mptctl: CommandLine, digits: Split
) -> None:
    root = ("--run-root", digits.run_root)
    keys = ("--set", "optim.max_steps=1", "--set", "runtime.threads=1", "--device", "cpu")
    assert mptctl("train-old", *root, *keys, "--name", "first").returncode == 0
    update = mptctl("train-mpt", *root, *keys, "--no-ref", "--old", "first", "--name", "mine")
    assert update.returncode == 0, update.stderr
    for name in ("last.pt", "previous.pt"):  # which only a longer training would need
        for path in digits.run_root.glob(f"*/{name}"):
            path.unlink()
    for verb, name in (("train-old", "first"), ("train-mpt", "mine")):
        refused = mptctl(verb, *root, "--name", name, "--resume", "--set", "optim.max_steps=2")
        assert refused.returncode == 5
        assert f"{digits.run_root / name}: is finished" in refused.stderr
        assert "--overwrite" not in refused.stderr
    taken = re.search(r"--set (\S+) --name NEW", refused.stderr)
    assert taken is not None
    new = mptctl("train-ref", *root, *keys, "--set", taken[1], "--name", "new")
    assert new.returncode == 0, new.stderr


def test_an_update_that_begins_with_the_old_model_has_its_network(mptctl: CommandLine, digits: Split) -> None:
    root = ("--run-root", digits.run_root)
    old = ("--set", "model.embedding_dim=4", "--set", "data.mean=[0.1,0.2,0.3]", "--set", "optim.max_steps=1")
    assert mptctl("train-old", *root, *old).returncode == 0
    update = ("train-mpt", *root, "--no-ref", "--init", "old", "--print-recipe")

    taken = mptctl(*update)
    found = yaml.safe_load(taken.stdout)
    assert (found["model"]["embedding_dim"], found["data"]["mean"]) == (4, [0.1, 0.2, 0.3])
    assert "as old has it, whose weights it begins with: data.mean, model.embedding_dim" in taken.stderr

    said = mptctl(*update, "--set", "model.embedding_dim=5")
    assert yaml.safe_load(said.stdout)["model"]["embedding_dim"] == 5
    named = mptctl(*update, "--recipe", "digits")
    found = yaml.safe_load(named.stdout)
    assert (found["model"]["embedding_dim"], found["data"]["mean"]) == (None, [0.1, 0.2, 0.3])
    assert "as old has it, whose weights it begins with: data.mean\n" in named.stderr
