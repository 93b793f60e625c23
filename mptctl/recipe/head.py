"""What the keys of a recipe's classifier mean together: its scale, and the margin of the true class in training."""

from __future__ import annotations

from typing import Protocol

from mptctl.names import HeadName

# s of each head where the recipe names none (Liu et al., ECCV 2020).
SCALES: dict[HeadName, float] = {"linear": 1.0, "cosine": 30.0, "linear-margin": 5.0}


class HeadKeys(Protocol):
    """The keys of the ``model`` group that say what the classifier is."""

    @property
    def head(self) -> HeadName: ...
    @property
    def head_scale(self) -> float | None: ...
    @property
    def head_margin(self) -> float: ...


def head_scale(recipe: HeadKeys) -> float:
    """s of a head."""
    return SCALES[recipe.head] if recipe.head_scale is None else recipe.head_scale


def true_class_margin(recipe: HeadKeys) -> float:
    """What training takes off the true class's logit before the criterion: s * m."""
    return head_scale(recipe) * recipe.head_margin


def refuse_margin_of_linear(recipe: HeadKeys) -> None:
    """Raise ValueError where a linear head is given a scale or a margin."""
    for key, value in (("head_scale", recipe.head_scale), ("head_margin", recipe.head_margin)):
        if recipe.head == "linear" and value:
            raise ValueError(
                f"model.{key}: a linear head has none; set model.head to cosine or linear-margin, or leave it out"
            )
