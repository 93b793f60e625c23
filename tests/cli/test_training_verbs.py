"""The verbs that train: their flags, the recipe that they make of them, and what a stopped run tells to type."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from mptctl.cli.messages import resume_command
from mptctl.data.split import Split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.recipe import load_recipe
from tests.common import CommandLine, Done

VERBS = ("train-old", "train-ref", "train-mpt", "train-baseline no-treatment", "tune", "train-ensemble")
OPENED: list[str] = []
sys.addaudithook(lambda event, given: OPENED.append(str(given[0])) if event == "open" else None)


@pytest.fixture
def recipe(mptctl: CommandLine, digits_root: Path) -> Any:
    """The recipe that a verb prints, as plain data."""

    def printed(*words: object) -> Any:
        out = mptctl(*words, "--run-root", digits_root, "--print-recipe")
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
    found = recipe(*verb.split(), "--recipe", file, *keys)
    assert OPENED.count(str(file)) == 1
    assert (found["optim"]["lr"], found["optim"]["epochs"]) == (0.5, 10)
    assert (found["runtime"]["device"], found["runtime"]["seed"]) == ("cpu", 7)


def test_one_seed_for_all_verbs_makes_no_twins(recipe: Any) -> None:
    seeds = [
        recipe(*verb.split(), *flag)["runtime"]["seed"]
        for verb in VERBS
        for flag in (("--set", "runtime.seed=3"), ("--seed", "3"))
    ]
    assert seeds == [2003, 3, 1003, 3, 3, 3, 3, 3, 3, 3, 3003, 3]


OWN_K = load_recipe("digits").method.k
PLAIN = "train-baseline no-treatment"
PRINTED = [
    ("train-mpt", ("mpt-kl", OWN_K, "fresh", False)),
    ("train-mpt --distance lm --k 0", ("mpt-lm", 0.0, "fresh", False)),
    ("train-mpt --recipe TUNED", ("mpt-lm", 2.0, "fresh", False)),
    ("train-mpt --recipe TUNED --distance kl", ("mpt-kl", 2.0, "fresh", False)),
    ("train-mpt --set method.name=mpt-lm", ("mpt-lm", OWN_K, "fresh", False)),
    ("train-mpt --no-ref --init old", ("mpt-kl-noref", OWN_K, "old", False)),
    ("train-mpt --no-ref --init old --distance lm", ("mpt-lm-noref", OWN_K, "old", False)),
    ("train-old --recipe TUNED", ("no-treatment", 2.0, "fresh", False)),
    ("train-baseline elodi --recipe TUNED", ("elodi", 2.0, "fresh", False)),
    ("train-baseline mpt-nodistill --k 3", ("mpt-nodistill", 3.0, "fresh", False)),
    (f"{PLAIN} --init old", ("no-treatment", OWN_K, "old", False)),
    (f"{PLAIN} --set method.init=old", ("no-treatment", OWN_K, "old", False)),
    (f"{PLAIN} --set method.init=old --init fresh", ("no-treatment", OWN_K, "fresh", False)),
    # Teachers' logits are kept where that is asked for, and in a search.
    ("train-mpt --cache-teachers", ("mpt-kl", OWN_K, "fresh", True)),
    ("train-baseline pct-kl --set runtime.cache_teachers=true", ("pct-kl", OWN_K, "fresh", True)),
    ("tune", ("mpt-kl", OWN_K, "fresh", True)),
    ("tune --no-cache-teachers", ("mpt-kl", OWN_K, "fresh", False)),
]


@pytest.mark.parametrize(("line", "printed"), PRINTED)
def test_the_recipe_of_a_line(
    line: str, printed: tuple[str, float, str, bool], recipe: Any, tmp_path: Path
) -> None:
    """Method, k, the weights that it begins with, and whether teachers' logits are kept."""
    (tmp_path / "TUNED").write_text("method: {name: mpt-lm, k: 2}\n")
    found = recipe(*(str(tmp_path / word) if word == "TUNED" else word for word in line.split()))
    method = found["method"]
    assert (method["name"], method["k"], method["init"], found["runtime"]["cache_teachers"]) == printed


@pytest.fixture
def train(mptctl: CommandLine, digits: Split) -> Callable[..., Done]:
    """A command line of one step on a CPU thread in a run root of its own, which must succeed."""

    def run(*words: object) -> Done:
        keys = ("--set", "optim.max_steps=1", "--set", "runtime.threads=1", "--device", "cpu")
        done = mptctl(*words, "--run-root", digits.run_root, *(() if "--resume" in words else keys))
        assert done.returncode == 0, done.stderr
        return done

    return run


Training = Callable[..., Done]


def test_a_run_goes_on_by_its_own_recipe_and_its_own_teachers(
    train: Training, mptctl: CommandLine, digits: Split
) -> None:
    """Nothing but its name is said again, although recipe, seed and teachers were not those taken by default."""
    for verb, name in (("train-old", "first"), ("train-ref", "second"), ("train-ref", "third")):
        train(verb, "--name", name, "--seed", len(name))
    teachers = ("--old", "first", "--ref", "third", "--ref", "second")
    lr = ("--set", "optim.lr=0.01", "--seed", 7)
    train("train-mpt", "--distance", "lm", "--k", 2, "--name", "mine", *lr, *teachers)
    again = train("train-mpt", "--name", "mine", "--resume")
    assert again.stdout == f"{digits.run_root / 'mine' / 'best.pt'}\n"
    assert "mine: already finished: 1 steps; nothing was left to train" in again.stderr
    other = ("--name", "mine", "--resume", "--set", "optim.lr=0.02", "--run-root", digits.run_root)
    refused = mptctl("train-mpt", *other)
    assert (refused.returncode, "optim.lr: 0.01 -> 0.02" in refused.stderr) == (5, True)
    train("train-ref", "--name", "second", "--resume")  # its seed is not moved again


def test_a_run_ends_with_its_best_epoch_and_the_next_command(mptctl: CommandLine, digits: Split) -> None:
    root = digits.run_root
    keys = ("--run-root", root, "--set", "optim.epochs=2", "--set", "runtime.threads=1", "--device", "cpu")
    old = mptctl("train-old", *keys)
    *_, result, following = old.stderr.splitlines()
    assert re.fullmatch(r"old: best epoch [12] of 2: val error .* % \(\d+ of 45\), old classes .*", result)
    assert following == f"next: mptctl train-ref --run-root {root}"
    assert "brought" not in old.stderr  # what the loader did is said where it held up a long run
    *_, result, following = mptctl("train-baseline", "no-treatment", *keys).stderr.splitlines()
    assert re.search(r", NFR .* % \(\d+ of \d+\)$", result)
    assert following == f"next: mptctl evaluate old no-treatment --run-root {root}"


def test_the_criterion_of_the_recipe_trains_and_stands_in_the_checkpoint(
    train: Training, digits: Split
) -> None:
    for verb in ("train-old", "train-ref", "train-mpt"):
        trained = {}
        for name in ("ce", "ls"):
            # The teachers are the same for both.
            teachers = ("--old", "train-old-ce", "--ref", "train-ref-ce") if verb == "train-mpt" else ()
            train(verb, "--name", f"{verb}-{name}", "--set", f"criterion.name={name}", *teachers)
            trained[name] = load_checkpoint(digits.run_root / f"{verb}-{name}" / "last.pt")
            assert trained[name].meta.recipe.criterion.name == name
        ce, ls = (trained[name].model for name in ("ce", "ls"))
        assert any(not torch.equal(ce[key], ls[key]) for key in ce), verb


def test_a_stopped_run_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["/usr/bin/mptctl", "train-mpt", "--name", "my run", "--overwrite"]
    monkeypatch.setattr(sys, "argv", words)
    assert shlex.split(resume_command()) == ["mptctl", "train-mpt", "--name", "my run", "--resume"]


def test_a_plain_update_begins_with_the_reference_without_being_told_its_name(
    train: Training, mptctl: CommandLine, digits: Split
) -> None:
    update = ("train-baseline", "no-treatment", "--init", "ref", "--set", "optim.epochs=0")
    refused = mptctl(*update, "--run-root", digits.run_root)
    assert (refused.returncode, "train-ref" in refused.stderr) == (5, True)
    train("train-ref")
    train(*update)
    ref, new = (load_checkpoint(digits.run_root / run / "best.pt").model for run in ("ref", "no-treatment"))
    assert all(torch.equal(tensor, new[key]) for key, tensor in ref.items())


def test_an_update_without_a_reference_goes_on_without_a_flag(
    train: Training, mptctl: CommandLine, digits: Split
) -> None:
    train("train-old")
    train("train-mpt", "--no-ref", "--init", "old", "--k", 1.5, "--name", "mine")
    resume = ("train-mpt", "--name", "mine", "--resume")
    assert "mine: already finished: 1 steps" in train(*resume).stderr  # and there is no run named ref
    train("train-ref")
    train(*resume)  # nor is one taken that is there
    other = mptctl(*resume, "--ref", "ref", "--run-root", digits.run_root)
    assert other.returncode == 5
    assert "method.name: mpt-kl-noref -> mpt-kl" in other.stderr


def test_a_run_to_resume_that_is_not_there_is_named_before_recipe_and_teachers(
    train: Training, mptctl: CommandLine, digits: Split
) -> None:
    train("train-ref", "--name", "first")
    resume = ("--resume", "--name", "frist", "--set", "optim.batch_size=100000")
    for verb in ("train-old", "train-mpt --no-ref", "train-baseline elodi"):
        refused = mptctl(*verb.split(), *resume, "--run-root", digits.run_root)
        assert (refused.returncode, refused.stderr.count("\n")) == (5, 1)
        assert f"{digits.run_root / 'frist'}: nothing to resume: there is no such run" in refused.stderr
        assert "runs there: first; did you mean first?" in refused.stderr
        assert not (digits.run_root / "frist").exists()


def test_a_finished_run_that_was_cleaned_is_not_told_to_begin_anew_in_its_folder(
    train: Training, mptctl: CommandLine, digits: Split
) -> None:
    train("train-old", "--name", "first")
    train("train-mpt", "--no-ref", "--old", "first", "--name", "mine")
    for name in ("last.pt", "previous.pt"):  # which only a longer training would need
        for path in digits.run_root.glob(f"*/{name}"):
            path.unlink()
    for verb, name in (("train-old", "first"), ("train-mpt", "mine")):
        longer = ("--name", name, "--resume", "--set", "optim.max_steps=2", "--run-root", digits.run_root)
        refused = mptctl(verb, *longer)
        assert refused.returncode == 5
        assert f"{digits.run_root / name}: is finished" in refused.stderr
        assert "--overwrite" not in refused.stderr
    taken = re.search(r"--set (\S+) --name NEW", refused.stderr)
    assert taken is not None
    train("train-ref", "--set", taken[1], "--name", "new")


def test_an_update_that_begins_with_the_old_model_has_its_network(train: Training) -> None:
    train("train-old", "--set", "model.embedding_dim=4", "--set", "data.mean=[0.1,0.2,0.3]")
    both, mean = "data.mean, model.embedding_dim\n", "data.mean\n"
    for flags, embedding, taken in (
        ((), 4, both),
        (("--set", "model.embedding_dim=5"), 5, mean),
        (("--recipe", "digits"), None, mean),
    ):
        done = train("train-mpt", "--no-ref", "--init", "old", "--print-recipe", *flags)
        found = yaml.safe_load(done.stdout)
        assert (found["model"]["embedding_dim"], found["data"]["mean"]) == (embedding, [0.1, 0.2, 0.3])
        assert f"as old has it, whose weights it begins with: {taken}" in done.stderr
