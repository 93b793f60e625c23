"""The fused MPT loss: biased cross-entropy and two focal distillations, values and gradient in one pass."""

from mpt_kernels.loss import backend_for, mpt_loss
from mpt_kernels.module import MPTLoss
from mpt_kernels.types import MptLossOutput

__all__ = ["MPTLoss", "MptLossOutput", "backend_for", "mpt_loss"]
