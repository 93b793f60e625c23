"""Models and a loader in, logits out: the one place where pictures that are not trained on meet a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import Batch
from mptctl.machine.device import Precision, autocast, freed_memory_kept


@torch.no_grad()
def forward(
    models: Sequence[nn.Module], loader: Loader, precision: Precision = "fp32"
) -> Iterator[tuple[Batch, list[Tensor]]]:
    """Logits of some models on every batch of a loader, in one pass over its pictures.

    Args:
        models: on the loader's device; they are put into evaluation mode and stay in it.
        loader: of a part in its fixed order, without augmentation.
        precision: bf16 computes in bfloat16 where torch finds that safe; fp32 in the types of the weights.

    Yields:
        A batch, and for each model (B, C) logits in float32, on the loader's device and without a gradient.
    """
    for model in models:
        model.eval()
    with freed_memory_kept():
        for batch in loader.epoch(0):
            with autocast(batch.images.device, precision):
                logits = [model(batch.images) for model in models]
            yield batch, [found.float() for found in logits]
