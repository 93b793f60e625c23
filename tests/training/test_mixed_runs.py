"""Runs that transform and mix pictures, repeat rare ones, weigh classes: resumed, cached, refused where impossible."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.models.checkpoint import load_checkpoint
from mptctl.recipe import Recipe
from mptctl.training.plan import check_request
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CPU, Log, assert_goes_on, short_recipe

MIXED = ("data.mixup=0.4", "data.cutmix=1", "data.mix_probability=0.9")
STEPS = "data.transforms=[rand-augment, {name: random-erasing, p: 0.5, value: random}]"
ALL = (*MIXED, "data.sampling=sqrt", "optim.accumulate=2", STEPS)


def request_of(taught: Split, name: str, recipe: Recipe) -> RunRequest:
    root = taught.run_root
    return RunRequest(recipe, taught, root / name, root / "old" / "best.pt", (root / "ref" / "best.pt",))


def weighted(taught: Split, folder: Path) -> str:
    file = folder / "weights.yaml"
    file.write_text("".join(f"'{name}': {1 + i / 10}\n" for i, name in enumerate(taught.classes.names)))
    return f"criterion.class_weights={file}"


def test_a_killed_run_with_all_of_it_resumes_bit_equal(taught: Split, tmp_path: Path) -> None:
    every = "runtime.checkpoint_every_steps=3"
    recipe = short_recipe(every, weighted(taught, tmp_path), *ALL, method="mpt-kl")
    whole = train(request_of(taught, "whole", recipe), Log())
    assert_goes_on(request_of(taught, "killed", recipe), "checkpoint", 6, whole.run)
    assert (
        load_checkpoint(whole.run.last).meta.recipe.criterion.class_weights == recipe.criterion.class_weights
    )


def test_what_teachers_said_of_mixed_pictures_is_kept_and_shared_by_runs_with_the_same_plan(
    taught: Split,
) -> None:
    def weights(name: str, *overrides: str) -> dict[str, torch.Tensor]:
        recipe = short_recipe("optim.epochs=1", *overrides, method="mpt-kl")
        return load_checkpoint(train(request_of(taught, name, recipe), Log()).run.last).model

    def folders() -> set[str]:
        return {path.name for path in (taught.run_root / "cache" / "teachers").glob("re*")}

    kept = ("runtime.cache_teachers=true", "runtime.cache_precision=fp32")
    plain, first = weights("plain", *ALL), weights("first", *ALL, *kept)
    with_all = folders()
    second = weights("second", *ALL, *kept)
    assert folders() == with_all
    for name, value in plain.items():
        assert torch.equal(value, first[name]), name
        assert torch.equal(value, second[name]), name
    for change in (
        "data.mixup=0.2",
        "data.mix_probability=0.5",
        "data.sampling=none",
        "data.transforms=[rand-augment]",
    ):
        before = folders()
        weights(f"with {change}", *ALL, change, "optim.max_steps=1", *kept)
        assert len(folders() - before) == 1, change


@pytest.mark.parametrize(("pieces", "workers", "multiple"), [(3, 1, 6), (2, 4, 16), (32, 2, 128)])
def test_pieces_that_would_part_a_pair_are_refused(
    taught: Split, pieces: int, workers: int, multiple: int
) -> None:
    recipe = short_recipe("data.mixup=0.2", "optim.batch_size=70", f"optim.accumulate={pieces}")
    with pytest.raises(
        UsageError, match=r"optim\.(batch_size 70: .* take a multiple of|accumulate)"
    ) as caught:
        check_request(request_of(taught, "odd", recipe), CPU, workers)
    assert "\n" not in str(caught.value)
    if "multiple" in str(caught.value):
        assert str(caught.value).endswith(f"{multiple}")
    fits = short_recipe("data.mixup=0.2", f"optim.batch_size={2 * multiple}", f"optim.accumulate={pieces}")
    check_request(request_of(taught, "even", fits), CPU, workers)
