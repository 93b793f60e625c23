"""Starts a model with the weights of the old model or of the reference, of the same architecture."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from mptctl.errors import UsageError
from mptctl.models.checkpoint import Checkpoint
from mptctl.models.heads import find_classifier
from mptctl.recipe import Recipe
from mptctl.recipe.network import SAME_NETWORK


@torch.no_grad()
def begin_with(model: nn.Module, source: Checkpoint, class_names: Sequence[str], recipe: Recipe) -> None:
    """Copy a model's weights and batch statistics; classifier rows of classes unknown to it stay as they are.

    Args:
        model: in place, with fresh weights.
        source: the model that is copied.
        class_names: of the model, in the order of its logits.
        recipe: of the model.

    Raises:
        UsageError: the source is another network, or was trained on pictures of another kind.
    """
    refuse_other_network(source, recipe)
    last = find_classifier(model, recipe.model.arch).name
    rows_of = {f"{last}.weight", f"{last}.bias"}
    column = {label: place for place, label in enumerate(source.meta.class_names)}
    known = [place for place, label in enumerate(class_names) if label in column]
    columns = [column[class_names[place]] for place in known]
    for key, tensor in model.state_dict().items():
        if key in rows_of:
            tensor[known] = source.model[key][columns].to(tensor.device)
        elif not key.endswith("drop_block.steps"):  # counts this run's steps
            tensor.copy_(source.model[key])


def refuse_other_network(source: Checkpoint, recipe: Recipe) -> None:
    """Raise UsageError where a recipe's network cannot begin with a model; it names the key that differs."""
    for key in SAME_NETWORK:
        group, _, field = key.partition(".")
        was, now = (getattr(getattr(one, group), field) for one in (source.meta.recipe, recipe))
        if was != now:
            raise UsageError(
                f"method.init {recipe.method.init}: {source.path} has {key} {was}, this recipe {now}; set "
                f"{key} as that model has it, or method.init=fresh"
            )
