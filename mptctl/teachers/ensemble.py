"""Frozen teachers: the old model, and the reference or an ensemble of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from mptctl.data.classes import ClassSplit, columns_for
from mptctl.data.loading.batch import Batch
from mptctl.errors import CheckpointError
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_checkpoint, load_model
from mptctl.recipe import DataRecipe, RuntimeRecipe
from mptctl.teachers.source import TeacherLogits


class Teacher(nn.Module):
    """One frozen model that answers in another's class order and takes another's normalisation.

    Args:
        checkpoint: of the model.
        wanted: class names in the order that its logits shall have.
        data: how the pictures are made that it will see.
        device: where it computes.
        runtime: precision and memory format.
        what: its name in messages.

    Raises:
        CheckpointError: it knows other classes, or pictures of another size.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        wanted: Sequence[str],
        data: DataRecipe,
        device: torch.device,
        runtime: RuntimeRecipe,
        what: str,
    ) -> None:
        super().__init__()
        own = checkpoint.meta.recipe.data
        if own.image_size != data.image_size:
            raise CheckpointError(
                f"{what}: was trained on {own.image_size} pixels, this recipe has {data.image_size}; "
                f"use --set data.image_size={own.image_size} or another model"
            )
        columns = columns_for(checkpoint.meta.class_names, wanted, what)
        self.model = load_model(checkpoint).requires_grad_(False).eval()
        if runtime.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        in_order = bool((columns == range(len(columns))).all())
        self.columns = None if in_order else torch.from_numpy(columns).to(device)
        self.rescale = None if (own.mean, own.std) == (data.mean, data.std) else _rescale(data, own, device)
        self.autocast = (device.type, runtime.teacher_precision == "bf16")
        if runtime.teacher_precision == "bf16":
            # As autocast would round them, but once: it keeps no copy of weights that are not trained, and a cast
            # of each in every step would cost as many launches as the layers themselves.
            for layer in self.model.modules():
                if isinstance(layer, nn.Conv2d | nn.Linear):
                    layer.to(torch.bfloat16)
        self.to(device)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """images: (B, 3, H, W), normalised for the student -> (B, len(wanted)) float32."""
        if self.rescale is not None:
            images = images * self.rescale[0] + self.rescale[1]
        device, reduced = self.autocast
        with torch.autocast(device, dtype=torch.bfloat16, enabled=reduced):
            logits: Tensor = self.model(images)
        logits = logits.float()
        return logits if self.columns is None else logits[:, self.columns]


class Teachers:
    """The teachers of a run, computed batch by batch.

    Args:
        old: checkpoint of the old model, or None.
        refs: checkpoints of the references; more than one is an ensemble, whose logits are averaged.
        classes: the split's class order.
        data, runtime, device: of the run.

    Raises:
        CheckpointError: a checkpoint that is damaged or does not fit the split.
    """

    def __init__(
        self,
        old: Path | None,
        refs: Sequence[Path],
        classes: ClassSplit,
        data: DataRecipe,
        runtime: RuntimeRecipe,
        device: torch.device,
    ) -> None:
        self.digests: dict[str, str] = {}
        # What each of them says of itself, by its path.
        self.metas: dict[Path, CheckpointMeta] = {}

        def teacher(role: str, path: Path, wanted: Sequence[str]) -> Teacher:
            checkpoint = load_checkpoint(path)
            self.digests[role] = checkpoint.digest
            self.metas[path] = checkpoint.meta
            return Teacher(checkpoint, wanted, data, device, runtime, str(path))

        self.old = teacher("old", old, classes.old) if old is not None else None
        self.refs = [
            teacher("ref" if len(refs) == 1 else f"ref{i}", path, classes.names)
            for i, path in enumerate(refs)
        ]

    def logits(self, batch: Batch, epoch: int, *, old: bool, ref: bool) -> TeacherLogits:
        """Logits of the wanted teachers; those that nobody wants are not computed."""
        old_logits = self.old(batch.images) if old and self.old is not None else None
        if not ref or not self.refs:
            return TeacherLogits(old_logits, None)
        total = self.refs[0](batch.images)
        for member in self.refs[1:]:
            total = total + member(batch.images)
        return TeacherLogits(old_logits, total / len(self.refs))


def _rescale(data: DataRecipe, own: DataRecipe, device: torch.device) -> tuple[Tensor, Tensor]:
    """Factor and offset from the student's normalisation to the teacher's, each (1, 3, 1, 1)."""
    mean, std, own_mean, own_std = (
        torch.tensor(v, device=device).reshape(1, 3, 1, 1) for v in (data.mean, data.std, own.mean, own.std)
    )
    return std / own_std, (mean - own_mean) / own_std
