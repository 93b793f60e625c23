"""Keep the rows of a study within a training cost: lengthen some, leave out those that cost more."""

from __future__ import annotations

from dataclasses import replace

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
        refs = _count_references(row, recipe, study)  # each costs a plain training
        if row.longer:
            recipe = _lengthen(recipe, max(1.0, (most - refs) / _own_cost(row, recipe, study, refs)))
        cost = _own_cost(row, recipe, study, refs) + refs
        # Without room for another epoch a longer row would be the row of its recipe once more.
        is_as_before = row.longer and recipe.optim.epochs == study.updates[row.name].optim.epochs
        if cost > most or is_as_before:
            dearer.append(row.name)
        else:
            kept[row.name] = recipe
            costs.append(f"{row.name} {cost:.2f} ({recipe.optim.epochs} epochs)")
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


def _count_references(row: UpdateRow, recipe: Recipe, study: Study) -> int:
    """The number of references that a row learns from or begins with."""
    if Role.REF not in row_of(row.method).teachers and recipe.method.init != "ref":
        return 0
    return (study.file.ensemble or 1) if row.ref == ENSEMBLE else 1


def _own_cost(row: UpdateRow, recipe: Recipe, study: Study, refs: int) -> float:
    """The passes of a row and of its teachers in plain trainings, which grow with its length.

    Counted as `compare` does, by the operations of the networks.

    Args:
        row: of the study.
        recipe: of the row.
        study: which has it.
        refs: number of its references.
    """
    roles = row_of(row.method).teachers
    plain = _count(study.new)
    asked = refs * plain.forward if Role.REF in roles else 0
    if Role.OLD in roles:
        asked += _count(study.old[OLD]).forward
    asked_share = max(0.0, 1 - start_epoch(recipe.method) / max(recipe.optim.epochs, 1))
    step = (_count(recipe).training_step + asked_share * asked) / plain.training_step
    return _length(recipe) / _length(study.new) * step


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
