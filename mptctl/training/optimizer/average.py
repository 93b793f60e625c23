"""A moving average of the student's weights, which is validated and saved in the student's place."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


class WeightAverage:
    """Exponential moving average of weights and batch statistics (Polyak and Juditsky 1992).

    The first update copies the student. Each later one sets the average to
    decay * average + (1 - decay) * student. Integer buffers (counters of batches) are always copied.
    `torch.optim.swa_utils` is not used because its step counter lies on the device, so the host would wait
    for the device in each step.

    Args:
        model: the student, on its device.
        decay: weight of the average so far in an update, a fraction.

    Attributes:
        model: a copy of the student with averaged weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self._decay = decay
        self._steps = 0

    def count_step(self) -> None:
        """Count the step that `follow` computes: apart from it, since a replayed graph counts nothing."""
        self._steps += 1

    @torch.no_grad()
    def follow(self, model: nn.Module) -> None:
        """Compute the average after the step that was counted last; the host only launches."""
        own, student = _tensors(self.model), _tensors(model)
        averaged = [i for i, tensor in enumerate(own) if tensor.is_floating_point()]
        copied = [i for i, tensor in enumerate(own) if not tensor.is_floating_point()]
        if self._steps == 1:
            copied += averaged
        else:
            torch._foreach_lerp_(
                [own[i] for i in averaged], [student[i] for i in averaged], 1.0 - self._decay
            )
        if copied:
            torch._foreach_copy_([own[i] for i in copied], [student[i] for i in copied])

    def state(self) -> dict[str, Any]:
        """Return the average and its number of steps, to be saved in a checkpoint and given to `restore`."""
        weights = {f"module.{name}": tensor for name, tensor in self.model.state_dict().items()}
        return {"n_averaged": torch.tensor(self._steps)} | weights

    def restore(self, state: dict[str, Any]) -> None:
        """Load the average from what `state` returned."""
        self._steps = int(state["n_averaged"])
        prefix = "module."
        self.model.load_state_dict(
            {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        )


def _tensors(model: nn.Module) -> list[Tensor]:
    """All weights and buffers of a model, in a fixed order."""
    return [tensor.detach() for tensor in (*model.parameters(), *model.buffers())]
