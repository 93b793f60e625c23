"""Changes to layers of other packages' networks: DropBlock, drop path, convolutions that skip padding."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mptctl.errors import UsageError

# Optimizer steps in which DropBlock's rate rises to its full value, as in the published code
# (bl0/negative-margin.few-shot, MetaOptNet).
RAMP_STEPS = 20 * 2000
# Stages of a ResNet in which that code puts a DropBlock behind every block.
STAGES = ("layer3", "layer4")


class _KernelSlice(torch.autograd.Function):
    """Slices a convolution's weights, (O, I, H, W), and gives the gradient the memory order of the weights.

    The gradient of torch's own slice has another memory order for channels-last weights, so that each
    training step would copy the gradient.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: range, columns: range) -> Tensor:
        ctx.shape, ctx.strides, ctx.rows, ctx.columns = weight.shape, weight.stride(), rows, columns
        return _slice_kernel(weight, rows, columns)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        whole = gradient.new_empty_strided(ctx.shape, ctx.strides).zero_()
        _slice_kernel(whole, ctx.rows, ctx.columns).copy_(gradient)
        return whole, None, None


def _slice_kernel(weight: Tensor, rows: range, columns: range) -> Tensor:
    """A view of some kernel rows and columns of a convolution's weights, (O, I, H, W)."""
    return weight[:, :, rows.start : rows.stop, columns.start : columns.stop]


class TrimmedConv2d(nn.Conv2d):
    """A convolution that, on a CPU, skips rows and columns of its kernel that meet only padding.

    A ResNet with its ImageNet stem reduces a picture of 32 pixels to maps of 1x1. There eight of the nine
    weights of a 3x3 kernel meet only padding: they change no sum, and their gradient is zero. The result is
    that of `nn.Conv2d`, and so are state and hooks.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: (B, in_channels, H, W) -> (B, out_channels, H', W'); see `nn.Conv2d`."""
        # Not on a GPU, where the gain was not measured; not in a graph that is traced for other programs.
        if input.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(input)
        height, width = input.shape[-2:]
        rows = rows_that_meet(height, self.kernel_size[0], self.stride[0], self._paddings[0])
        columns = rows_that_meet(width, self.kernel_size[1], self.stride[1], self._paddings[1])
        if (len(rows), len(columns)) == self.kernel_size:
            return super().forward(input)
        met = _KernelSlice.apply(self.weight, rows, columns)
        padding = (self._paddings[0] - rows.start, self._paddings[1] - columns.start)
        return F.conv2d(input, met, self.bias, self.stride, padding, self.dilation, self.groups)

    @property
    def _paddings(self) -> tuple[int, int]:
        """Padding above and below, and padding left and right, in pixels."""
        assert not isinstance(self.padding, str)
        return self.padding[0], self.padding[1]


def trim_convolutions(model: nn.Module) -> None:
    """Turn zero-padded convolutions of a network into `TrimmedConv2d`, in place; weights and hooks stay.

    Subclasses of `nn.Conv2d` and convolutions with dilation are left as they are.
    """
    for module in model.modules():
        if type(module) is not nn.Conv2d or isinstance(module.padding, str):
            continue
        if module.padding_mode == "zeros" and module.dilation == (1, 1) and any(module.padding):
            module.__class__ = TrimmedConv2d


def restore_convolutions(model: nn.Module) -> None:
    """Undo `trim_convolutions`, in place."""
    for module in model.modules():
        if type(module) is TrimmedConv2d:
            module.__class__ = nn.Conv2d  # type: ignore[assignment]  # its class before


@lru_cache(maxsize=1024)
def rows_that_meet(side: int, kernel: int, stride: int, padding: int) -> range:
    """The range of a kernel's rows that meet the picture at some place of a convolution; also for columns.

    Args:
        side: rows of the picture.
        kernel: rows of the kernel.
        stride: of the convolution, in rows.
        padding: rows of padding above and below the picture.

    Returns:
        Indices of rows, from the first that meets the picture to the last. All rows if none does, or if the
        smaller kernel would give an output of another size.

    >>> rows_that_meet(1, 3, 1, 1)  # one row of a picture between two of padding
    range(1, 2)
    """
    places = (side + 2 * padding - kernel) // stride + 1
    tops = [place * stride - padding for place in range(places)]  # the kernel's first row at each place
    met = [row for row in range(kernel) if any(0 <= top + row < side for top in tops)]
    if not met:
        return range(kernel)
    rows = range(met[0], met[-1] + 1)
    places_trimmed = (side + 2 * (padding - rows.start) - len(rows)) // stride + 1
    return rows if places_trimmed == places else range(kernel)


class DropBlock(nn.Module):
    """DropBlock (Ghiasi et al., NeurIPS 2018): sets squares at random places to 0 and scales up the rest.

    Args:
        rate: part of a map to set to 0, from 0 to 1; the rate rises linearly from 0 in `RAMP_STEPS`
            optimizer steps, which `count_drop_block_step` counts.
        size: side of a square in places of the map; at most the map's side is used.
    """

    steps: Tensor

    def __init__(self, rate: float, size: int) -> None:
        super().__init__()
        self.rate, self.size = rate, size
        # A buffer is saved with the weights, so that a resumed run goes on with the same rate.
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> same shape; unchanged in evaluation."""
        if not self.training:
            return x
        height, width = x.shape[2:]
        size = min(self.size, height, width)
        places = (height - size + 1) * (width - size + 1)
        rate = self.rate * (self.steps / RAMP_STEPS).clamp(max=1.0)
        # The paper's gamma: with this probability a place becomes the corner of a square.
        probability = rate * height * width / (size**2 * places)
        draws = torch.rand(*x.shape[:2], height - size + 1, width - size + 1, device=x.device)
        corners = (draws < probability).to(x.dtype)
        kept = 1 - F.max_pool2d(F.pad(corners, [size - 1] * 4), size, stride=1)
        return x * kept * (kept.numel() / kept.sum().clamp(min=1))


def count_drop_block_step(blocks: Iterable[DropBlock]) -> None:
    """Count an optimizer step in each block in training mode, before the step's first forward pass."""
    for block in blocks:
        if block.training:
            block.steps += 1


def insert_drop_block(model: nn.Module, arch: str, rate: float, size: int) -> None:
    """Put a `DropBlock` behind every block of the last two stages of a ResNet, in place.

    Args:
        model: the network.
        arch: its architecture's name, for the message.
        rate, size: as for `DropBlock`.

    Raises:
        UsageError: the network is not a ResNet of torchvision.
    """
    from torchvision.models import ResNet

    if not isinstance(model, ResNet):
        raise UsageError(f"model.dropblock {rate:g}: {arch} has no stages for it; it is for ResNets")
    for name in STAGES:
        for block in model.get_submodule(name).children():
            # As a submodule of the block, so that the names of all weights stay.
            block.add_module("drop_block", DropBlock(rate, size))
            block.register_forward_hook(_drop_from_output)


def _drop_from_output(block: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """Forward hook: apply the block's `DropBlock` to the block's output."""
    dropped: Tensor = block.get_submodule("drop_block")(output)
    return dropped


def set_drop_path(model: nn.Module, arch: str, rate: float | None) -> None:
    """Set the rates at which a network of torchvision skips its residual blocks in training, in place.

    Args:
        model: the network.
        arch: its architecture's name, for the message.
        rate: of the last block, from 0 to 1; those of earlier blocks rise linearly from 0. None: no change.

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
