"""The recipe of an update that begins with the old model's weights: that model's network and pictures."""

from __future__ import annotations

import typer

from mptctl.cli.training_flags import TrainingFlags
from mptctl.errors import CheckpointError
from mptctl.models.run_folder import find_checkpoint
from mptctl.recipe import Recipe, change_recipe, differences, load_recipe
from mptctl.recipe.network import network_keys


def with_network_of_old(recipe: Recipe, old: str, flags: TrainingFlags) -> Recipe:
    """Take the network and the preparation of pictures from the old model's run, and say what that changes.

    What the person decided stands: a recipe that was named, and the keys of ``--set``.

    Args:
        recipe: of the update, by the preset.
        old: the old model: a run's name or a path.
        flags: as they were given.

    Returns:
        The recipe; as it was where the old model's recipe is not there.
    """
    if flags.recipe is not None:
        return recipe
    try:
        of_old = find_checkpoint(old, flags.run_root).parent / "recipe.yaml"
    except CheckpointError:
        return recipe  # said when the run is put together
    if not of_old.is_file():
        return recipe
    said = {each.partition("=")[0].strip() for each in flags.overrides or ()}
    keys = network_keys(load_recipe(str(of_old), of_run=True), but=said)
    changed = change_recipe(recipe, keys, str(of_old))
    if taken := [key for key, _, _ in differences(recipe, changed)]:
        typer.echo(f"as {old} has it, whose weights it begins with: {', '.join(taken)}", err=True)
    return changed
