"""Keys of a recipe's `data` group: what the rarely used ones do."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.data.plan import EpochPlan
from mptctl.errors import UsageError
from mptctl.recipe import DataRecipe, load_recipe


def test_ratio_limits_the_aspect_of_resized_crops() -> None:
    rows = np.arange(500, dtype=np.int64)
    side = np.full(500, 1000, dtype=np.int32)
    for ratio in ((1.0, 1.0), (2.0, 3.0)):
        data = DataRecipe(augment="random-resized-crop", scale=(0.1, 0.2), ratio=ratio)
        views = EpochPlan(0, data).views(0, rows, side, side)
        aspects = views.width / views.height
        # Sides are whole numbers, which moves an aspect by less than a hundredth here.
        assert ratio[0] - 0.01 <= aspects.min()
        assert aspects.max() <= ratio[1] + 0.01
    assert aspects.max() - aspects.min() > 0.9  # the whole range is drawn


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_the_hardware_decoders_part_lies_between_none_and_all(value: float) -> None:
    with pytest.raises(UsageError, match=r"data\.hw_decoder_load"):
        load_recipe("digits", [f"data.hw_decoder_load={value}"])
