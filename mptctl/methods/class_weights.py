"""Computes the weights of classes in the criterion, from numbers of training pictures or as given."""

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


def compute_class_weights(
    recipe: CriterionRecipe, names: Sequence[str], counts: NDArray[np.int64]
) -> Tensor | None:
    """Compute the weight of each class in the criterion; None where the recipe has no ``class_weights``.

    Weights by a rule have a mean of 1 over the training pictures, so that the criterion keeps its size beside
    distillation. Weights given by name are taken as they are.

    Args:
        recipe: gives the weights by name, or a rule.
        names: (C,) classes of the model, in the order of its logits.
        counts: (C,) training pictures of each class. A class without any has the weight of one with 1.

    Returns:
        (C,) float32.

    Raises:
        UsageError: the recipe gives weights by name, and a class has none.

    One class has 1 picture, the other 3; the sums of their weights over pictures are equal:

    >>> recipe = CriterionRecipe(class_weights="inverse")
    >>> compute_class_weights(recipe, ["a", "b"], np.array([1, 3])).tolist()  # 2 and 2/3
    [2.0, 0.6666666865348816]
    """
    given = recipe.class_weights
    if given is None:
        return None
    if isinstance(given, dict):
        missing = [name for name in names if name not in given]
        if missing:
            unknown = [name for name in given if name not in names]
            meant = nearest(missing[0], unknown) if unknown else ""
            raise UsageError(
                f"criterion.class_weights: no weight of {some(missing)}{meant}; add it to the file"
            )
        return torch.tensor([given[name] for name in names], dtype=torch.float32)
    n = np.maximum(counts, 1).astype(np.float64)
    # Cui et al., "Class-Balanced Loss Based on Effective Number of Samples" (CVPR 2019), Eq. 4.
    weights = 1 / n if given == "inverse" else (1 - EFFECTIVE_BETA) / (1 - EFFECTIVE_BETA**n)
    return torch.from_numpy(weights * counts.sum() / (weights * counts).sum()).float()
