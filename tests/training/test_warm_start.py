"""A run that begins with the old model or the reference: what it takes over, what is fresh, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split, make_split
from mptctl.errors import UsageError
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.networks import build_model
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, Log, Train, short_recipe

WARM = "method.init=old"


@pytest.fixture
def old(run: Train) -> Path:
    result, _ = run(short_recipe("optim.epochs=1", "runtime.seed=7"), "old", only_old_classes=True)
    return result.run.best


def test_zero_epochs_from_the_reference_are_the_reference_bit_for_bit(run: Train, old: Path) -> None:
    ref, _ = run(short_recipe("optim.epochs=1", "runtime.seed=9"), "ref")
    recipe = short_recipe("optim.epochs=0", "method.init=ref", "runtime.seed=9", method="mpt-kl")
    new, log = run(recipe, "new", old=old, refs=(ref.run.best,))
    source, found = load_checkpoint(ref.run.best), load_checkpoint(new.run.best)
    assert all(torch.equal(tensor, found.model[key]) for key, tensor in source.model.items())
    assert source.model.keys() == found.model.keys()
    # It is meant to begin as its teacher ended; that their seeds are alike is warned of elsewhere.
    assert not any("began with this run's seed" in note for note in log.notes)


@pytest.mark.parametrize("head", ["cosine", "linear-margin"])
def test_rows_of_a_scaled_head_are_taken_over_too(run: Train, head: str) -> None:
    keys = (f"model.head={head}", "model.embedding_dim=5")
    old, _ = run(short_recipe("optim.epochs=1", "runtime.seed=7", *keys), "old", only_old_classes=True)
    new, _ = run(short_recipe("optim.epochs=0", WARM, *keys), "new", old=old.run.best)
    source, found = load_checkpoint(old.run.best), load_checkpoint(new.run.best)
    assert torch.equal(found.model["fc.1.weight"][:5], source.model["fc.1.weight"])
    assert torch.equal(found.model["fc.0.weight"], source.model["fc.0.weight"])
    assert found.model["fc.1.bias"].tolist() == [0.0] * 10
    with pytest.raises(UsageError, match=r"model\.head"):
        run(short_recipe("optim.epochs=0", WARM, "model.embedding_dim=5"), "other", old=old.run.best)


def test_body_old_rows_and_statistics_are_the_old_models_and_new_rows_are_fresh(
    run: Train, old: Path
) -> None:
    recipe = short_recipe("optim.epochs=0", WARM)
    result, _ = run(recipe, "new", old=old)
    source, found = load_checkpoint(old), load_checkpoint(result.run.best)
    torch.manual_seed(recipe.runtime.seed)
    fresh = build_model(recipe.model, len(found.meta.class_names), recipe.data.image_size).state_dict()
    num_old = len(source.meta.class_names)
    for key, tensor in found.model.items():
        if key.startswith("fc."):
            assert torch.equal(tensor[:num_old], source.model[key])
            assert torch.equal(tensor[num_old:], fresh[key][num_old:])
        else:
            assert torch.equal(tensor, source.model[key])
    assert any("running_mean" in key for key in found.model)
    assert (found.meta.global_step, found.meta.recipe.method.init) == (0, "old")


def test_rows_go_by_the_names_of_classes(run: Train, old: Path, digits: Split, tmp_path: Path) -> None:
    """The same old classes in another order: split.json of another root names them so."""
    names = list(reversed(digits.classes.old))
    other = make_split("digits", run_root=tmp_path / "other", old_names=names)
    train(RunRequest(short_recipe("optim.epochs=0", WARM), other, other.run_root / "new", old=old), Log())
    found, source = load_checkpoint(other.run_root / "new" / "best.pt"), load_checkpoint(old)
    for place, name in enumerate(names):
        row = source.meta.class_names.index(name)
        assert torch.equal(found.model["fc.weight"][place], source.model["fc.weight"][row])


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("model.arch=characters-net", "model.arch"),
        ("model.embedding_dim=4", "model.embedding_dim"),
        ("data.mean=[0.1,0.2,0.3]", "data.mean"),
    ],
)
def test_another_network_is_said(key: str, says: str, run: Train, old: Path, digits: Split) -> None:
    with pytest.raises(UsageError, match=f"method.init old.*{says}"):
        run(short_recipe("optim.epochs=1", WARM, key), "new", old=old)
    assert not (digits.run_root / "new" / "last.pt").exists()


def test_without_an_old_model_there_is_nothing_to_begin_with(
    digits_root: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    flags = ("--run-root", digits_root, "--set", WARM, "--dry-run")
    done = mptctl("train-baseline", "no-treatment", *flags)
    assert done.returncode == 2
    assert "--old" in done.stderr
    done = mptctl(
        "train-baseline", "no-treatment", "--run-root", digits_root, "--set", "method.init=ref", "--dry-run"
    )
    assert done.returncode == 5
    assert "train-ref" in done.stderr
    # The old model and the reference have none to begin with, whatever the recipe that all verbs share says.
    mptctl.must("train-old", *flags)
    mptctl.must("train-ref", *flags)


def test_an_untrained_run_of_no_epoch_is_validated_and_finished(run: Train) -> None:
    result, log = run(short_recipe("optim.epochs=0"), "none")
    assert result.steps == 0
    assert [line.event for line in log.lines] == ["epoch", "checkpoint", "done"]
    assert result.best_error is not None
    again, _ = run(short_recipe("optim.epochs=0"), "none", resume=True)
    assert again.best_error == result.best_error
