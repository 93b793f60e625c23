"""Batch normalisation by the statistics of the global batch: torch's on GPUs, one for gloo on CPUs."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm


def convert_sync_batchnorm(model: nn.Module, device: torch.device) -> nn.Module:
    """Make every batch normalisation of a model use the statistics of all workers' pictures in training.

    Names and values of the model's state stay, so checkpoints fit the plain model too.

    Args:
        model: on its device; changed in place.
        device: a GPU, or a CPU with gloo.

    Returns:
        The model; a new module if the model is itself a batch normalisation.
    """
    if device.type == "cpu":
        return _convert_for_gloo(model)
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
        plain: the layer to replace. Its weights, running statistics, mode, and timm's dropout and activation
            are taken over.
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
        """Normalise x, (B, C, ...) of this worker, in training by the statistics of all workers."""
        y = self._over_all_workers(x) if self.training else super().forward(x)
        for name in ("drop", "act"):
            if hasattr(self, name):
                y = getattr(self, name)(y)
        return y

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept any number of dimensions: (B, C) and (B, C, H, W) are normalised alike."""

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # a sum over workers ends a graph anyway
    def _over_all_workers(self, x: Tensor) -> Tensor:
        """Normalise x, (B, C, ...), by the statistics of all workers, and move the running statistics."""
        mean, var, count = global_statistics(x)
        if self.track_running_stats:
            self._move_running_statistics(mean, var, count)
        y: Tensor = _Normalise.apply(x, self.weight, self.bias, mean, var, count, self.eps)
        return y

    @torch.no_grad()
    def _move_running_statistics(self, mean: Tensor, var: Tensor, count: float) -> None:
        """Move the running statistics towards a batch's, as torch does: the variance without bias.

        Args:
            mean: (C,).
            var: (C,), with its bias.
            count: number of values that each is taken of.
        """
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        part = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), part)
        self.running_var.lerp_((var * (count / (count - 1))).to(self.running_var.dtype), part)


@torch.no_grad()
def global_statistics(x: Tensor) -> tuple[Tensor, Tensor, float]:
    """Compute mean and variance of each channel over the pictures and positions of all workers.

    The workers sum up in double precision, in which (mean of squares - square of the mean) is exact enough
    for single precision.

    Args:
        x: (B, C, ...) of this worker; B may differ between workers.

    Returns:
        Mean (C,) and variance (C,) with its bias, both in single precision at least, and the number of values
        that each is taken of.

    Raises:
        RuntimeError: another worker is gone.
        ValueError: a channel has one value over all workers, so no variance.
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
    """Normalisation with given statistics, which the gradient takes as functions of all workers' inputs.

    Let g be the gradient of the output, N the number of values of a channel, x^ the normalised input. The
    gradient of x is weight / sigma * (g - sum(g) / N - x^ sum(g x^) / N), with sums over all workers (Ioffe
    and Szegedy 2015, section 3). The gradients of weight and bias are of this worker alone, since
    DistributedDataParallel averages them.
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
        """Normalise x, (B, C, ...) of this worker, by mean and var, (C,) each of ``count`` values."""
        ctx.save_for_backward(x, weight, mean, var)
        ctx.count, ctx.eps = count, eps
        return functional.batch_norm(x, mean, var, weight, bias, training=False, eps=eps)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of x, weight and bias; sums two values a channel over all workers."""
        x, weight, mean, var = ctx.saved_tensors
        # `grad` as if the statistics were constants; `of_weight` is sum(g x^) and `of_bias` sum(g), here.
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


def _convert_for_gloo(module: nn.Module) -> nn.Module:
    """Replace every batch normalisation below a module by `GlooBatchNorm`, in place; return the module."""
    if isinstance(module, _BatchNorm):
        return GlooBatchNorm(module)
    for name, child in module.named_children():
        module.add_module(name, _convert_for_gloo(child))
    return module
