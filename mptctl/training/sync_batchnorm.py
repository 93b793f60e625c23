"""Batch normalisation by the statistics of the global batch, on GPUs."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def convert_sync_batchnorm(model: nn.Module) -> nn.Module:
    """Make every batch normalisation of a model use the statistics of all workers' pictures in training.

    Names and values of the model's state stay, so checkpoints fit the plain model too.

    Args:
        model: on its GPU; changed in place.

    Returns:
        The model; a new module if the model is itself a batch normalisation.
    """
    if any(isinstance(module, _BatchNorm) and hasattr(module, "act") for module in model.modules()):
        # timm's conversion keeps the activation that is part of its batch norms; torch's loses it.
        from timm.layers import convert_sync_batchnorm as convert_timm

        timms: nn.Module = convert_timm(model)
        return timms
    torchs: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return torchs
