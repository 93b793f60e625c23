"""Weights of classes in the criterion: by the numbers of their training pictures, or as they are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mptctl.errors import UsageError, some
from mptctl.files.explained import nearest
from mptctl.recipe import CriterionRecipe
from mptctl.recipe.criterion import EFFECTIVE_BETA


def class_weights(recipe: CriterionRecipe, names: Sequence[str], counts: NDArray[np.int64]) -> Tensor | None:
    """The weight of each class in the criterion; None where the recipe has none.

    Computed weights have a mean of 1 over the training pictures, so that the criterion keeps its size beside
    distillation. Given weights are taken as they are.

    Args:
        recipe: gives weights by name, or the rule that computes them.
        names: (C,) classes that the model knows, in the order of its logits.
        counts: (C,) their training pictures; a class without one counts as one with one.

    Returns:
        (C,) float32.

    Raises:
        UsageError: the recipe gives weights, and none of a class.

    One class has 1 picture, the other 3; the sums of their weights over pictures are equal:

    >>> recipe = CriterionRecipe(class_weights="inverse")
    >>> class_weights(recipe, ["a", "b"], np.array([1, 3])).tolist()  # 2 and 2/3
    [2.0, 0.6666666865348816]
    """
    said = recipe.class_weights
    if said is None:
        return None
    if isinstance(said, dict):
        missing = [name for name in names if name not in said]
        if missing:
            unknown = [name for name in said if name not in names]
            meant = nearest(missing[0], unknown) if unknown else ""
            raise UsageError(
                f"criterion.class_weights: no weight of {some(missing)}{meant}; add it to the file"
            )
        return torch.tensor([said[name] for name in names], dtype=torch.float32)
    n = np.maximum(counts, 1).astype(np.float64)
    # Cui et al., "Class-Balanced Loss Based on Effective Number of Samples" (CVPR 2019), Eq. 4.
    weights = 1 / n if said == "inverse" else (1 - EFFECTIVE_BETA) / (1 - EFFECTIVE_BETA**n)
    return torch.from_numpy(weights * n.sum() / (weights * n).sum()).float()
