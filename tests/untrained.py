"""Run folders of models that nobody trained, for tests to which the answers do not matter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch

from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.networks import build_model
from mptctl.recipe import load_recipe


def untrained_run(
    folder: Path,
    classes: tuple[str, ...],
    num_old: int,
    *,
    seed: int = 0,
    keys: Sequence[str] = (),
    last: Literal["epoch", "done"] | None = None,
) -> Path:
    """Write a model of the digits' preset with its first weights; `last` is the last event of its metrics, if any."""
    recipe = load_recipe("digits", keys)
    torch.manual_seed(seed)
    model = build_model(recipe.model, len(classes), recipe.data.image_size)
    meta = CheckpointMeta(recipe=recipe, class_names=classes, num_old=num_old)
    save_checkpoint(folder / "best.pt", meta, model.state_dict())
    if last is not None:
        line = MetricsLine(event=last, epoch=2, step=24)
        (folder / "metrics.jsonl").write_text(line.model_dump_json(exclude_none=True) + "\n")
    return folder / "best.pt"
