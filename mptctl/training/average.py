"""An average of the student's weights over its steps, which is validated and kept in its place."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class WeightAverage:
    """Exponential moving average of weights and batch statistics (Polyak and Juditsky 1992).

    After the first step it is the student; after each other one, decay * average + (1 - decay) * student. Counters of
    batches are the student's.

    Args:
        model: that is averaged, on its device.
        decay: part of the average that a step leaves.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        average = get_ema_multi_avg_fn(decay)
        self._averaged = AveragedModel(model, multi_avg_fn=average, use_buffers=True).requires_grad_(False)

    @property
    def model(self) -> nn.Module:
        """A module of the average, with the names of the student's weights."""
        model: nn.Module = self._averaged.module
        return model

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the student after a step; nothing waits for the device."""
        self._averaged.update_parameters(model)
        for mine, theirs in zip(self.model.buffers(), model.buffers(), strict=True):
            if not mine.is_floating_point():
                mine.copy_(theirs)

    def state(self) -> dict[str, Any]:
        """What a resumed run needs of it."""
        return dict(self._averaged.state_dict())

    def restore(self, state: dict[str, Any]) -> None:
        """Put it where a run left off."""
        self._averaged.load_state_dict(state)
