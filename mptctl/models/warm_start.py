"""Initialises a model with the weights of the old model or of a reference of the same architecture."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import torch
from torch import nn

from mptctl.errors import UsageError
from mptctl.models.checkpoint import Checkpoint
from mptctl.models.heads import find_classifier
from mptctl.recipe import Recipe
from mptctl.recipe.reading import SAME_NETWORK


@torch.no_grad()
def copy_weights(model: nn.Module, source: Checkpoint, class_names: Sequence[str], recipe: Recipe) -> None:
    """Copy weights and batch statistics of a checkpoint into a model, in place.

    Classifier rows are matched by class name; rows of classes that the checkpoint does not know stay.

    Args:
        model: a network with fresh weights.
        source: the checkpoint to copy.
        class_names: the model's classes, in the order of its logits.
        recipe: the model's recipe.

    Raises:
        UsageError: the checkpoint has another network, or was trained on pictures of another kind.
    """
    refuse_other_network(source, recipe)
    classifier = find_classifier(model, recipe.model.arch).name
    source_rows = {name: row for row, name in enumerate(source.meta.class_names)}
    rows = [row for row, name in enumerate(class_names) if name in source_rows]
    matching_rows = [source_rows[class_names[row]] for row in rows]
    for key, tensor in model.state_dict().items():
        if key in (f"{classifier}.weight", f"{classifier}.bias"):
            tensor[rows] = source.model[key][matching_rows].to(tensor.device)
        elif not key.endswith("drop_block.steps"):  # DropBlock counts this run's steps
            tensor.copy_(source.model[key])


def refuse_other_network(source: Checkpoint, recipe: Recipe) -> None:
    """Raise UsageError if a checkpoint's recipe differs from another in a key of `SAME_NETWORK`."""
    for key in SAME_NETWORK:
        was, now = attrgetter(key)(source.meta.recipe), attrgetter(key)(recipe)
        if was != now:
            raise UsageError(
                f"method.init {recipe.method.init}: {source.path} has {key} {was}, this recipe {now}; set "
                f"{key} as that model has it, or method.init=fresh"
            )
