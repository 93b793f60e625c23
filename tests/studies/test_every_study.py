"""Every study that comes with the program learns: each of its runs takes a step on pictures of the right shape."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import pytest
import torch
from torch import Tensor

from mptctl.data.loading.part import Batch
from mptctl.methods.table import method_from_recipe
from mptctl.models.networks import build_model, set_training_mode
from mptctl.names import Role
from mptctl.recipe import ModelRecipe, Recipe, change_recipe
from mptctl.studies.study_file import load_study, study_names
from mptctl.studies.study_plan import plan_study
from mptctl.training.run import make_student
from mptctl.training.step import train_step

# Of the pictures that a study is about, where its source alone does not say.
CLASSES = {
    "cifar10": 10,
    "tiny-imagenet-100": 100,
    "cifar100": 100,
    "imagenet": 1000,
    "demo": 62,
    "convergence": 62,
    "budget": 62,
    "equal-cost": 62,
    "precision": 62,
    "mpt-plus": 100,
    "pct-own": 100,
    "tuned": 62,
    "tiny-imagenet-calibration": 200,
    "cub": 200,
    "finetune": 10,
    "which": 10,
}
COUNT = 2  # the fewest pictures that batch normalisation takes
STEPS = 2
SMALL = 64
# Their networks and methods are those of other studies, with other settings.
OF_THE_NIGHT = {
    "cifar10-calibration", "tiny-imagenet-calibration", "cub-calibration", "imagenet-r18-r50", "imagenet-ablation",
    "cifar10-causes", "which",
}  # fmt: skip
TRAINED: set[tuple[int, str, str]] = set()


class RandomTeachers:
    """Answers with logits of the right shape."""

    def __init__(self, shapes: dict[Role, int]) -> None:
        self._shapes = shapes

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        return {role: torch.randn(len(batch.labels), self._shapes[role]) for role in roles}


def classes_of(study: str) -> int:
    return next(CLASSES[name] for name in sorted(CLASSES, key=len, reverse=True) if study.startswith(name))


@cache
def model_of(model: str, known: int, image_size: int) -> torch.nn.Module:
    return build_model(ModelRecipe.model_validate_json(model), known, image_size)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.nightly if name in OF_THE_NIGHT else ()) for name in study_names()],
)
def test_every_run_of_a_study_takes_steps(name: str) -> None:
    study = load_study(name)
    classes = classes_of(name)
    taken, learnt = 0, False
    built: set[tuple[str, int, int]] = set()
    for run in plan_study(study, study.file.seeds[:1]):
        split = study.file.split
        num_old = int(classes * split.old_fraction)
        known = num_old if run.only_old_classes else classes
        # Nothing is downloaded; and two pictures would throw a net off at the rate of a whole batch.
        recipe = change_recipe(run.recipe, {"model.pretrained": None, "optim.lr": 1e-4}, name)
        kind = (recipe.model.model_dump_json(), known, recipe.data.image_size)
        how = (known, run.method, recipe.criterion.name)
        if (learnt or not run.is_update) and taken >= STEPS and how in TRAINED and kind in built:
            continue  # it has learnt as many classes in another study, with another k, or by another net
        # A net that has taken pictures of its study's size takes small ones after that, where it takes any.
        is_shown = kind in built and recipe.model.arch.startswith("resnet")
        size = min(SMALL, recipe.data.image_size) if is_shown else recipe.data.image_size
        TRAINED.add(how)
        built.add(kind)
        loss = loss_of_a_step(recipe, model_of(*kind), known, num_old, size)
        assert torch.isfinite(loss), run.key
        taken, learnt = taken + 1, learnt or run.is_update
    assert learnt or not study.file.updates
    assert taken >= STEPS


def loss_of_a_step(recipe: Recipe, model: torch.nn.Module, known: int, num_old: int, size: int) -> Tensor:
    method = method_from_recipe(recipe.method, num_old, recipe.criterion).for_epoch(recipe.optim.epochs - 1)
    set_training_mode(model, recipe.model)
    whole = change_recipe(recipe, {"optim.accumulate": 1}, "test")
    student = make_student(
        whole, model, method, teachers=RandomTeachers({Role.OLD: num_old, Role.REF: known})
    )
    batch = Batch(torch.randn(COUNT, 3, size, size), torch.arange(COUNT) * (known - 1), torch.arange(COUNT))
    before = [p.detach().clone() for p in model.parameters() if p.requires_grad][-1]
    loss = train_step(student, batch, recipe.optim.lr, COUNT)["loss"]
    after = [p for p in model.parameters() if p.requires_grad][-1]
    assert not torch.equal(before, after)
    return loss
