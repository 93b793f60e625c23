"""Layers of our own in other networks: DropBlock, and convolutions that skip weights on padding."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mptctl.errors import UsageError

# Steps in which the rate rises to its full value (bl0/negative-margin.few-shot, as in MetaOptNet).
RAMP_STEPS = 20 * 2000
# The stages in which that code puts a DropBlock behind every block.
STAGES = ("layer3", "layer4")


class _Part(torch.autograd.Function):
    """A slice of a convolution's weights, (O, I, H, W), whose gradient has the memory order of the weights.

    The gradient of torch's own slice has another order for channels-last weights; each step would copy it.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: range, columns: range) -> Tensor:
        ctx.shape, ctx.strides, ctx.rows, ctx.columns = weight.shape, weight.stride(), rows, columns
        return _cut(weight, rows, columns)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        whole = gradient.new_empty_strided(ctx.shape, ctx.strides).zero_()
        _cut(whole, ctx.rows, ctx.columns).copy_(gradient)
        return whole, None, None


def _cut(weight: Tensor, rows: range, columns: range) -> Tensor:
    """A view of some rows and columns of a convolution's weights."""
    return weight[:, :, rows.start : rows.stop, columns.start : columns.stop]


class TrimmedConv2d(nn.Conv2d):
    """A convolution that, on a CPU, skips rows and columns of its weights which never meet the picture.

    A ResNet with its ImageNet stem reduces 32 pixels to maps of 1x1, where eight of the nine weights of a 3x3
    convolution meet only padding: they change no sum, and their gradient is zero. The rest is a smaller
    convolution. State and hooks are those of `nn.Conv2d`.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: (B, in_channels, H, W) -> (B, out_channels, H', W'), as of `nn.Conv2d`."""
        # Not measured on a GPU; and a graph that is traced for others keeps the network's own convolutions.
        if input.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(input)
        rows, columns = map(
            rows_that_meet, input.shape[-2:], self.kernel_size, self.stride, self._padding_sides
        )
        if (len(rows), len(columns)) == self.kernel_size:
            return super().forward(input)
        met = _Part.apply(self.weight, rows, columns)
        padding = (self._padding_sides[0] - rows.start, self._padding_sides[1] - columns.start)
        return F.conv2d(input, met, self.bias, self.stride, padding, self.dilation, self.groups)

    @property
    def _padding_sides(self) -> tuple[int, int]:
        assert not isinstance(self.padding, str)
        return self.padding[0], self.padding[1]


def trim_convolutions(model: nn.Module) -> None:
    """Turn a network's padded convolutions into `TrimmedConv2d`, in place; weights, names and hooks stay.

    Args:
        model: any network. Convolutions with dilation, with padding other than zeros, or of a subclass stay.
    """
    for module in model.modules():
        if type(module) is not nn.Conv2d or module.padding_mode != "zeros" or module.dilation != (1, 1):
            continue
        if not isinstance(module.padding, str) and any(module.padding):
            module.__class__ = TrimmedConv2d


def restore_convolutions(model: nn.Module) -> None:
    """Undo `trim_convolutions`, in place."""
    for module in model.modules():
        if type(module) is TrimmedConv2d:
            module.__class__ = nn.Conv2d  # type: ignore[assignment]  # its class before


@lru_cache(maxsize=1024)
def rows_that_meet(side: int, kernel: int, stride: int, padding: int) -> range:
    """The rows of a convolution's kernel that meet the picture at some place, from the first to the last.

    Args:
        side: rows of the picture.
        kernel, stride, padding: of the convolution, in rows.

    Returns:
        Rows of the kernel; all of them where a smaller kernel would give an output of another size.

    >>> rows_that_meet(1, 3, 1, 1)  # one row of a picture between two of padding
    range(1, 2)
    """
    places = (side + 2 * padding - kernel) // stride + 1
    met = [row for row in range(kernel) if any(0 <= i * stride - padding + row < side for i in range(places))]
    rows = range(met[0], met[-1] + 1) if met else range(kernel)
    same = (side + 2 * (padding - rows.start) - len(rows)) // stride + 1 == places
    return rows if same else range(kernel)


class DropBlock(nn.Module):
    """Ghiasi et al. (NeurIPS 2018): squares at random places are set to 0, and the rest is scaled up.

    Args:
        rate: part of a map that is set to 0, from 0 to 1; it rises linearly from 0 in `RAMP_STEPS` steps.
        size: side of a square in places of the map; larger than the map counts as the map's.
    """

    steps: Tensor

    def __init__(self, rate: float, size: int) -> None:
        super().__init__()
        self.rate, self.size = rate, size
        # With the weights, so that a resumed run goes on where it was.
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> the same shape; unchanged in evaluation."""
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
    """Put a `DropBlock` behind every block of the late stages, in place.

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
            block.register_forward_hook(_drop_from_output)


def _drop_from_output(block: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    dropped: Tensor = block.get_submodule("drop_block")(output)
    return dropped


def set_drop_path(model: nn.Module, arch: str, rate: float | None) -> None:
    """Set the rates at which a network of torchvision leaves out its residual blocks in training, in place.

    Args:
        model: in place.
        arch: its name, for the message.
        rate: of the last block; those before it rise to it from 0. None leaves the network's own.

    Raises:
        UsageError: the network has no blocks that can be left out.
    """
    if rate is None:
        return
    blocks = [module for module in model.modules() if type(module).__name__ == "StochasticDepth"]
    if rate and not blocks:
        raise UsageError(
            f"model.drop_path: {arch} leaves out no blocks; ConvNeXt, Swin, EfficientNet, MaxViT and many of "
            "timm:NAME can; choose one of these, or set it to null"
        )
    for place, block in enumerate(blocks):
        block.__dict__["p"] = rate * place / max(1, len(blocks) - 1)
