"""A training step on an imagined GPU: nothing goes from the host to the device or back, and launches are few."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from mptctl.bench.ways_to_train import ways_to_train
from tests.common import short_recipe
from tests.imagined_gpu import GPU, CrossingError, Watch, imagined_gpu

ALL = ("optim.ema=0.9", "optim.name=adamw", "optim.clip_grad_norm=1.0", "optim.accumulate=2")


def launches(way: str, tmp_path: Path, *overrides: str, method: str = "mpt-kl") -> Counter[str]:
    """The launches of a second step; the first one makes the optimizer's state."""
    with imagined_gpu():
        recipe = short_recipe("method.elodi_start_epoch=0", *overrides, method=method)
        step = ways_to_train(recipe, 10, GPU, tmp_path, (way,))[0][way]
        step()
        with Watch() as watch:
            step()
    return watch.launched


@pytest.mark.parametrize("method", ["mpt-kl", "elodi-topk"])
@pytest.mark.parametrize("overrides", [(), ALL], ids=["plain", "all"])
def test_a_step_never_crosses(method: str, overrides: tuple[str, ...], tmp_path: Path) -> None:
    launched = launches("ours", tmp_path, *overrides, method=method)
    assert launched.total() > launches("floor", tmp_path, *overrides, method=method).total()
    # At 32 pixels a step is bound by its launches. Batch statistics of each type are one tensor and one choice;
    # so are the terms of the loss, and the norms of the gradients.
    assert launched["where.self_out"] == 2 + 2
    assert launched["_foreach_lerp_.Scalar"] == (1 if "optim.ema=0.9" in overrides else 0)


def test_what_crosses_is_found_out() -> None:
    with imagined_gpu():
        there = torch.zeros(3, device=GPU)
        ways = (
            there.cpu, there.sum().item, there.nonzero, lambda: torch.ones(3).to(GPU),
            lambda: torch.tensor(2.0).to(GPU), lambda: there.copy_(torch.ones(3)),
        )  # fmt: skip
        for crossing in ways:
            with Watch(), pytest.raises(CrossingError):
                crossing()
