"""DropBlock after the late stages of a ResNet: squares of a feature map are left out in training."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mptctl.errors import UsageError

# Steps in which the rate rises to its height (bl0/negative-margin.few-shot, as in MetaOptNet).
RAMP_STEPS = 20 * 2000
# The stages whose every block is followed by one, in that code.
STAGES = ("layer3", "layer4")


class DropBlock(nn.Module):
    """Ghiasi et al. (NeurIPS 2018): squares at random places are set to 0, and the rest is scaled up.

    Args:
        rate: part that is left out at the height, 0 to 1; it rises on a line from 0.
        size: side of a square; at most that of the map counts.
    """

    steps: Tensor

    def __init__(self, rate: float, size: int) -> None:
        super().__init__()
        self.rate, self.size = rate, size
        # With the weights, so that a resumed run goes on where it was.
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W), and the same out; unchanged in evaluation."""
        if not self.training:
            return x
        self.steps += 1
        height, width = x.shape[2:]
        size = min(self.size, height, width)
        places = (height - size + 1) * (width - size + 1)
        rate = self.rate * (self.steps / RAMP_STEPS).clamp(max=1.0)
        seeds = torch.rand(*x.shape[:2], height - size + 1, width - size + 1, device=x.device)
        drawn = (seeds < rate * height * width / (size**2 * places)).to(x.dtype)
        kept = 1 - F.max_pool2d(F.pad(drawn, [size - 1] * 4), size, stride=1)
        return x * kept * (kept.numel() / kept.sum().clamp(min=1))


def insert_drop_block(model: nn.Module, arch: str, rate: float, size: int) -> None:
    """Follow every block of the late stages by a `DropBlock`.

    Raises:
        UsageError: the network is not a ResNet of torchvision.
    """
    from torchvision.models import ResNet

    if not isinstance(model, ResNet):
        raise UsageError(f"model.dropblock {rate:g}: {arch} has no stages for it; it is for ResNets")
    for name in STAGES:
        for block in model.get_submodule(name).children():
            # A part of the block, so that the names of its weights stay.
            block.add_module("drop_block", DropBlock(rate, size))
            block.register_forward_hook(_drop)


def _drop(block: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    dropped: Tensor = block.get_submodule("drop_block")(output)
    return dropped
