"""Computes the outputs of models on a loader's pictures, for all purposes but training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import Batch
from mptctl.machine.device import Precision, autocast, keep_freed_memory


@torch.no_grad()
def forward(
    models: Sequence[nn.Module], loader: Loader, precision: Precision = "fp32"
) -> Iterator[tuple[Batch, list[Tensor]]]:
    """Compute the logits of several models in one pass over a loader's pictures.

    Args:
        models: on the loader's device; they are put into evaluation mode and stay in that mode.
        loader: gives a part's pictures in their fixed order, without augmentation.
        precision: "bf16" uses torch's autocast to bfloat16; "fp32" computes in the weights' types.

    Yields:
        A batch, and for each model (B, C) logits in float32, on the loader's device and without a gradient.
    """
    for model in models:
        model.eval()
    with keep_freed_memory():
        for batch in loader.epoch(0):
            with autocast(batch.images.device, precision):
                logits = [model(batch.images) for model in models]
            yield batch, [values.float() for values in logits]
