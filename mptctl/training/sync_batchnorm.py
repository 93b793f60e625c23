"""Batch normalisation by the statistics of the global batch: torch's on GPUs, our own over gloo on CPUs."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm


def convert_sync_batchnorm(model: nn.Module, device: torch.device) -> nn.Module:
    """Make every batch normalisation of a model use the statistics of all workers' pictures in training.

    Names and values of the model's state stay, so that its checkpoints are those of the plain model.

    Args:
        model: on its device; it is changed.
        device: a GPU, or a CPU with gloo.

    Returns:
        The model.
    """
    if device.type == "cpu":
        return _converted(model)
    if any(isinstance(module, _BatchNorm) and hasattr(module, "act") for module in model.modules()):
        # timm's conversion keeps the activation that is part of its batch norms; torch's loses it.
        from timm.layers import convert_sync_batchnorm as convert_timm

        timms: nn.Module = convert_timm(model)
        return timms
    torchs: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return torchs


class GlooBatchNorm(_BatchNorm):
    """Batch normalisation over all workers of a gloo group; in evaluation the same as the plain one.

    Args:
        plain: gives its weights, running statistics and mode, and the activation that timm's has.
    """

    def __init__(self, plain: _BatchNorm) -> None:
        super().__init__(
            plain.num_features, plain.eps, plain.momentum, affine=False, track_running_stats=False
        )
        self.affine, self.track_running_stats = plain.affine, plain.track_running_stats
        self.weight, self.bias = plain.weight, plain.bias
        self.running_mean, self.running_var = plain.running_mean, plain.running_var
        self.num_batches_tracked = plain.num_batches_tracked
        self.training = plain.training
        for name in ("drop", "act"):  # of timm's BatchNormAct2d
            if hasattr(plain, name):
                setattr(self, name, getattr(plain, name))

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, ...) of this worker -> the same shape, normalised by the B of all workers together."""
        y = self._over_all_workers(x) if self.training else super().forward(x)
        for name in ("drop", "act"):
            if hasattr(self, name):
                y = getattr(self, name)(y)
        return y

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept any number of dimensions: (B, C) and (B, C, H, W) are normalised alike."""

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # a sum over workers ends a graph anyway
    def _over_all_workers(self, x: Tensor) -> Tensor:
        mean, var, count = global_statistics(x)
        if self.track_running_stats:
            self._follow(mean, var, count)
        y: Tensor = _Normalise.apply(x, self.weight, self.bias, mean, var, count, self.eps)
        return y

    @torch.no_grad()
    def _follow(self, mean: Tensor, var: Tensor, count: float) -> None:
        """Move the running statistics, as torch does: the variance without bias."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        part = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), part)
        self.running_var.lerp_((var * (count / (count - 1))).to(self.running_var.dtype), part)


@torch.no_grad()
def global_statistics(x: Tensor) -> tuple[Tensor, Tensor, float]:
    """Statistics of each channel over the pictures and places of all workers.

    One sum over the workers, in double precision: there the mean of squares less the square of the mean loses
    nothing that single precision has.

    Args:
        x: (B, C, ...) of this worker; B may differ between workers.

    Returns:
        Mean (C,), variance (C,) with its bias, both in single precision at least, and how many values each is
        of.

    Raises:
        RuntimeError: another worker is gone.
        ValueError: one value a channel has no variance.
    """
    kind = torch.promote_types(x.dtype, torch.float32)
    unused = (torch.zeros(x.size(1), dtype=kind), torch.zeros(x.size(1), dtype=kind))
    mean, var = (t.double() for t in torch.batch_norm_update_stats(x, *unused, 0.0))
    rows = x.numel() // x.size(1)
    sums = torch.cat([rows * mean, rows * (var + mean.square()), torch.tensor([rows], dtype=torch.float64)])
    dist.all_reduce(sums)
    count = float(sums[-1])
    if count < 2:
        raise ValueError(f"batch normalisation: {count:g} value a channel over all workers; it needs 2")
    mean, squares = (sums[:-1] / count).chunk(2)
    return mean.to(kind), (squares - mean.square()).clamp_(min=0).to(kind), count


class _Normalise(torch.autograd.Function):
    """The normalisation with given statistics; its gradient knows that they are those of all workers' inputs.

    With g the gradient of the output, N values a channel and x^ the normalised input, that of x is
    weight / sigma * (g - sum(g) / N - x^ sum(g x^) / N) with sums over all workers (Ioffe and Szegedy 2015,
    section 3). Those of weight and bias are of this worker alone: they are averaged with all others.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        var: Tensor,
        count: float,
        eps: float,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, var)
        ctx.count, ctx.eps = count, eps
        return functional.batch_norm(x, mean, var, weight, bias, training=False, eps=eps)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, var = ctx.saved_tensors
        # As if the statistics were constants; the sums of this worker come with it.
        grad, of_weight, of_bias = torch.ops.aten.native_batch_norm_backward(
            gradients[0], x, weight, mean, var, None, None, False, ctx.eps, [True, True, True]
        )
        sums = torch.cat([of_weight, of_bias]).double()
        dist.all_reduce(sums)
        scale = (var.double() + ctx.eps).rsqrt() / ctx.count
        scale = scale if weight is None else scale * weight.double()
        products, plain = ((scale * part).to(mean.dtype) for part in sums.chunk(2))
        grad -= functional.batch_norm(x, mean, var, products, plain, training=False, eps=ctx.eps)
        wanted = ctx.needs_input_grad
        return (
            grad,
            of_weight if wanted[1] else None,
            of_bias if wanted[2] else None,
            None,
            None,
            None,
            None,
        )


def _converted(module: nn.Module) -> nn.Module:
    if isinstance(module, _BatchNorm):
        return GlooBatchNorm(module)
    for name, child in module.named_children():
        module.add_module(name, _converted(child))
    return module
