"""Frozen teachers: the old model, and the reference or an ensemble of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from mptctl.data.classes import ClassSplit, columns_for
from mptctl.data.loading.part import Batch
from mptctl.errors import CheckpointError
from mptctl.machine.device import autocast, place
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_checkpoint, load_model
from mptctl.names import Role
from mptctl.recipe import DataRecipe, RuntimeRecipe


class Teacher(nn.Module):
    """A frozen model that answers in another's class order and takes another's normalisation.

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
        frozen = load_model(checkpoint).requires_grad_(False).eval()
        self.model = place(frozen, device, channels_last=runtime.channels_last)
        in_order = bool((columns == range(len(columns))).all())
        self.columns = None if in_order else torch.from_numpy(columns).to(device)
        self.rescale = None if (own.mean, own.std) == (data.mean, data.std) else _rescale(data, own, device)
        self.device, self.precision = device, runtime.teacher_precision
        if runtime.teacher_precision == "bf16":
            # As autocast would round them, but once: it keeps no copy of weights that are not trained, and a
            # cast of each in every step would cost as many launches as the layers themselves.
            for layer in self.model.modules():
                if isinstance(layer, nn.Conv2d | nn.Linear):
                    layer.to(torch.bfloat16)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """images: (B, 3, H, W), normalised for the student -> (B, len(wanted)) float32."""
        if self.rescale is not None:
            images = images * self.rescale[0] + self.rescale[1]
        with autocast(self.device, self.precision):
            logits: Tensor = self.model(images)
        logits = logits.float()
        return logits if self.columns is None else logits[:, self.columns]


class Ensemble(nn.Module):
    """Teachers of one class order as one: it answers with the mean of their logits.

    Args:
        members: at least one.
    """

    def __init__(self, members: Sequence[Teacher]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, images: Tensor) -> Tensor:
        """images: (B, 3, H, W), normalised for the student -> (B, C) float32."""
        first, *others = self.members
        total: Tensor = first(images)
        for member in others:
            total = total + member(images)
        return total / len(self.members)


class Teachers:
    """The teachers of a run, computed batch by batch: a `TeacherSource`.

    Args:
        old: checkpoint of the old model, or None.
        refs: checkpoints of the references; more than one is an ensemble, whose logits are averaged.
        classes: the split's class order.
        data, runtime, device: of the run.

    Attributes:
        models: by role; those that were given.
        digests: of their weights, by name.
        metas: what each of them says of itself, by its path.

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
        self.metas: dict[Path, CheckpointMeta] = {}

        def teacher(name: str, path: Path, wanted: Sequence[str]) -> Teacher:
            checkpoint = load_checkpoint(path)
            self.digests[name] = checkpoint.digest
            self.metas[path] = checkpoint.meta
            return Teacher(checkpoint, wanted, data, device, runtime, str(path))

        self.models: dict[Role, nn.Module] = {}
        if old is not None:
            self.models[Role.OLD] = teacher(Role.OLD.value, old, classes.old)
        if refs:
            names = [Role.REF.value] if len(refs) == 1 else [f"{Role.REF}{i}" for i in range(len(refs))]
            members = [teacher(name, path, classes.names) for name, path in zip(names, refs, strict=True)]
            self.models[Role.REF] = Ensemble(members)

    def open(self) -> None:
        """Models are ready when they are loaded."""

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """See `TeacherSource.logits`."""
        return {role: model(batch.images) for role, model in self.models.items() if role in roles}


def _rescale(data: DataRecipe, own: DataRecipe, device: torch.device) -> tuple[Tensor, Tensor]:
    """Factor and offset from the student's normalisation to the teacher's, each (1, 3, 1, 1)."""
    mean, std, own_mean, own_std = (
        torch.tensor(v, device=device).reshape(1, 3, 1, 1) for v in (data.mean, data.std, own.mean, own.std)
    )
    return std / own_std, (mean - own_mean) / own_std
