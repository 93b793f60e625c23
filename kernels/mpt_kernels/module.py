"""The fused loss as a PyTorch module that autograd can differentiate: `MPTLoss`."""

from typing import Any, Required, TypedDict, Unpack

import torch
from torch import Tensor, nn

from mpt_kernels.loss import Backend, mpt_loss
from mpt_kernels.reference import compute_dtype, invert_normalizer
from mpt_kernels.types import Distance, MptLossOutput, Reduction


class MptLossSettings(TypedDict, total=False):
    """The settings of `MPTLoss`; `mpt_loss` explains each, and has the defaults."""

    num_old: Required[int]
    k: float | Tensor
    distance: Distance | None
    lam: float
    lam_old: float | None
    lam_ref: float | None
    alpha: float
    beta: float
    tau: float
    tau_squared: bool
    lm_reduction: Reduction
    ce_focal_weight: float
    ignore_index: int
    backend: Backend


class MPTLoss(nn.Module):
    """`mpt_loss` with fixed settings, for `criterion(logits, target, ...).loss.backward()`.

    The forward pass computes the gradient too; the backward pass only scales it. A training loop that calls
    `logits.backward(mpt_loss(...).grad)` itself saves the scaling.

    Args:
        settings: keyword arguments of `mpt_loss`, but for `normalizer`, `grad_scale` and `row_weight`.

    Raises:
        TypeError: an argument is no setting, or `num_old` is missing.
    """

    def __init__(self, **settings: Unpack[MptLossSettings]) -> None:
        super().__init__()
        if unknown := sorted(settings.keys() - MptLossSettings.__annotations__.keys()):
            raise TypeError(f"MPTLoss() got an unexpected keyword argument {unknown[0]!r}")
        if "num_old" not in settings:
            raise TypeError("MPTLoss() missing 1 required keyword-only argument: 'num_old'")
        self.settings = settings

    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None = None,
        ref_logits: Tensor | None = None,
        normalizer: float | Tensor | None = None,
        row_weight: Tensor | None = None,
    ) -> MptLossOutput:
        """Compute `mpt_loss` with a `loss` that autograd can differentiate in `logits`, once.

        Arguments are those of `mpt_loss`. The result's `grad` is not divided by the normaliser, so that small
        gradients in float16 do not vanish before a loss scaler multiplies them.
        """
        ignore_index = self.settings.get("ignore_index", -100)
        divisor = (target != ignore_index).sum() if normalizer is None else normalizer
        out = mpt_loss(
            logits,
            target,
            old_logits,
            ref_logits,
            normalizer=divisor,
            grad_scale=divisor,  # undoes the division, which `_Attach.backward` does
            row_weight=row_weight,
            **self.settings,
        )
        inverse_normalizer = invert_normalizer(divisor, target, ignore_index, compute_dtype(logits))
        loss: Tensor = _Attach.apply(logits, out.loss, out.grad, inverse_normalizer)
        # Not by `_replace`, which dynamo of torch 2.11 cannot trace.
        return MptLossOutput(loss, out.terms, out.grad, out.correct)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())


class _Attach(torch.autograd.Function):
    """Autograd function that gives a computed loss a computed gradient in the logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, loss: Tensor, grad: Tensor, inverse_normalizer: Tensor) -> Tensor:
        ctx.save_for_backward(grad, inverse_normalizer)
        return loss.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None, None]:
        grad, inverse_normalizer = ctx.saved_tensors
        scale = upstream[0] * inverse_normalizer
        return (grad.to(scale.dtype) * scale).to(grad.dtype), None, None, None
