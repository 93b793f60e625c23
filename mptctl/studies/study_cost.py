"""Keep the rows of a study within a training cost: lengthen some, leave out those that cost more."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from mptctl.errors import UsageError
from mptctl.methods.rows import row_of, start_epoch
from mptctl.names import Role
from mptctl.recipe import Recipe, change_recipe
from mptctl.studies.cost_of_run import ModelOperations, count_network
from mptctl.studies.study_file import ENSEMBLE, OLD, Study, UpdateRow

# Classes that networks are counted with, since the split need not be there yet; the last layer is small.
CLASSES = 100
# Of floats, so that 2.7 times 30 epochs are 81.
ROUNDING = 1e-9


class RowCost(NamedTuple):
    """The training cost of a row in plain trainings.

    Attributes:
        trained: its passes and those of its teachers, which grow with its length.
        taught: the training of its references.
    """

    trained: float
    taught: float

    @property
    def total(self) -> float:
        """The sum of both."""
        return self.trained + self.taught


def within_cost(study: Study, most: float) -> tuple[Study, str]:
    """Keep the rows of a study within a training cost.

    Rows with `longer` get as many epochs as the cost allows, their step schedules stretched alike; other rows
    keep their length. Rows that cost more are left out, and longer ones without room for another epoch.

    Args:
        study: as in its file.
        most: largest cost of a row, in plain trainings.

    Returns:
        The study, and a sentence with the cost of each row.

    Raises:
        UsageError: fewer than two rows are left.
    """
    kept: dict[str, Recipe] = {}
    costs: list[str] = []
    dearer: list[str] = []
    for row in study.file.updates:
        recipe = study.updates[row.name]
        cost = _cost_of(row, recipe, study)
        if row.longer:
            recipe = _lengthen(recipe, max(1.0, (most - cost.taught) / cost.trained))
            cost = _cost_of(row, recipe, study)
        # Without room for another epoch a longer row would be the row of its recipe once more.
        is_as_before = row.longer and recipe.optim.epochs == study.updates[row.name].optim.epochs
        if cost.total > most or is_as_before:
            dearer.append(row.name)
        else:
            kept[row.name] = recipe
            costs.append(f"{row.name} {cost.total:.2f} ({recipe.optim.epochs} epochs)")
    without = f"; left out: {', '.join(dearer)}" if dearer else ""
    if len(kept) < 2:
        raise UsageError(
            f"--cost {most:g}: leaves {len(kept)} of {len(study.file.updates)} rows of the study "
            f"{study.name}, and there is no choice among fewer than 2{without}; allow more"
        )
    rows = [row for row in study.file.updates if row.name in kept]
    file = study.file.model_copy(update={"updates": rows})
    sentence = f"training cost of each row, in plain trainings: {', '.join(costs)}{without}"
    return replace(study, file=file, updates=kept), sentence


def _cost_of(row: UpdateRow, recipe: Recipe, study: Study) -> RowCost:
    """The cost of a row, counted as `compare` does, by the operations of the networks."""
    roles = row_of(row.method).teachers
    plain = _count(study.new)
    refs = 0
    if Role.REF in roles or recipe.method.init == "ref":
        refs = (study.file.ensemble or 1) if row.ref == ENSEMBLE else 1
    asked = 0
    if Role.OLD in roles:
        asked += _count(study.old[OLD]).forward
    if Role.REF in roles:
        asked += refs * plain.forward
    asked_share = max(0.0, 1 - start_epoch(recipe.method) / max(recipe.optim.epochs, 1))
    step = (_count(recipe).training_step + asked_share * asked) / plain.training_step
    return RowCost(trained=_length(recipe) / _length(study.new) * step, taught=float(refs))


def _count(recipe: Recipe) -> ModelOperations:
    """The operations of the network of a recipe, with `CLASSES` classes."""
    return count_network(recipe.model, recipe.data.image_size, CLASSES)


def _length(recipe: Recipe) -> int:
    """The length of a training, in steps where these are limited, else in epochs."""
    return recipe.optim.max_steps or recipe.optim.epochs


def _lengthen(recipe: Recipe, factor: float) -> Recipe:
    """Return a recipe with so many times the epochs, rounded down, and its step schedule stretched alike."""
    optim = recipe.optim
    keys: dict[str, object] = {
        "optim.epochs": int(optim.epochs * factor + ROUNDING),
        "optim.step_epochs": max(1, round(optim.step_epochs * factor)),
    }
    if optim.milestones is not None:
        keys["optim.milestones"] = [max(1, round(epoch * factor)) for epoch in optim.milestones]
    if optim.max_steps is not None:
        keys["optim.max_steps"] = max(1, int(optim.max_steps * factor + ROUNDING))
    return change_recipe(recipe, keys, "longer")
