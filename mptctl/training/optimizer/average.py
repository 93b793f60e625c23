"""An average of the student's weights over its steps, which is validated and kept in its place."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


class WeightAverage:
    """Exponential moving average of weights and batch statistics (Polyak and Juditsky 1992).

    The first step copies the student; each later one makes it decay * average + (1 - decay) * student.
    Integer buffers (counters of batches) are always copied. `torch.optim.swa_utils` is not used because its
    step counter lies on the device, for which the host would wait in each step.

    Args:
        model: that is averaged, on its device.
        decay: part of the average that a step leaves.

    Attributes:
        model: a module of the average, with the names of the student's weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self._decay = decay
        self._steps = 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the student after a step; nothing waits for the device."""
        mine, theirs = _tensors(self.model), _tensors(model)
        numbers = [i for i, tensor in enumerate(mine) if tensor.is_floating_point()]
        counters = [i for i, tensor in enumerate(mine) if not tensor.is_floating_point()]
        if self._steps == 0:
            counters += numbers
        else:
            torch._foreach_lerp_([mine[i] for i in numbers], [theirs[i] for i in numbers], 1.0 - self._decay)
        if counters:
            torch._foreach_copy_([mine[i] for i in counters], [theirs[i] for i in counters])
        self._steps += 1

    def state(self) -> dict[str, Any]:
        """The average as a part of a checkpoint, for `restore`."""
        weights = {f"module.{name}": tensor for name, tensor in self.model.state_dict().items()}
        return {"n_averaged": torch.tensor(self._steps)} | weights

    def restore(self, state: dict[str, Any]) -> None:
        """Load the average that `state` gave."""
        self._steps = int(state["n_averaged"])
        prefix = "module."
        self.model.load_state_dict(
            {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        )


def _tensors(model: nn.Module) -> list[Tensor]:
    """All weights and buffers of a model, in a fixed order."""
    return [tensor.detach() for tensor in (*model.parameters(), *model.buffers())]
