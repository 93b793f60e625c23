"""`MPTLoss`: the fused loss as a PyTorch criterion, differentiable by autograd."""

from typing import Any

import torch
from torch import Tensor, nn

from mpt_kernels.loss import mpt_loss
from mpt_kernels.reference import compute_dtype, invert_normalizer
from mpt_kernels.types import MptLossOutput


class MPTLoss(nn.Module):
    """`mpt_loss` with its settings fixed, for `criterion(logits, target, ...).loss.backward()`.

    The gradient comes out of the forward pass; backward only scales it. A training loop of one's own saves
    that scaling: `logits.backward(mpt_loss(...).grad)`.

    Args:
        settings: the keyword arguments of `mpt_loss`, without `normalizer`, `grad_scale` and `row_weight`.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
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
        """Arguments and result of `mpt_loss`, with a `loss` that is differentiable in `logits` (once).

        `grad` is left undivided by the normaliser: in float16 that keeps small gradients from vanishing
        before a loss scaler gets to multiply them.
        """
        ignore_index = self.settings.get("ignore_index", -100)
        divisor = (target != ignore_index).sum() if normalizer is None else normalizer
        out = mpt_loss(
            logits,
            target,
            old_logits,
            ref_logits,
            normalizer=divisor,
            grad_scale=divisor,  # cancels the division by the normalizer: `_Attach.backward` divides
            row_weight=row_weight,
            **self.settings,
        )
        inverse_normalizer = invert_normalizer(divisor, target, ignore_index, compute_dtype(logits))
        loss: Tensor = _Attach.apply(logits, out.loss, out.grad, inverse_normalizer)
        # Built anew, since dynamo of torch 2.11 does not follow `_replace` of a named tuple.
        return MptLossOutput(loss, out.terms, out.grad, out.correct)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())


class _Attach(torch.autograd.Function):
    """Ties a loss that is already computed to the logits, by a gradient that is already computed."""

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
