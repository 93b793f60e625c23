"""Frozen models as teachers: the old model, and the reference or an ensemble of references."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from mptctl.data.classes import ClassSplit, columns_for
from mptctl.data.loading.part import Batch
from mptctl.errors import CheckpointError
from mptctl.machine.device import autocast, move_to_device
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_checkpoint, load_model
from mptctl.names import Role
from mptctl.recipe import DataRecipe, RuntimeRecipe
from mptctl.teachers.source import names_of_references


class Teacher(nn.Module):
    """A frozen model that takes the student's pictures, and gives logits in the student's class order.

    Args:
        checkpoint: of the model.
        wanted: class names in the order that the logits are to have.
        data: the student's picture size and normalisation.
        device: where the model computes.
        runtime: precision and memory format.
        what: name of the model in messages.

    Raises:
        CheckpointError: the model lacks a class, or was trained on pictures of another size.
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
        self.model = move_to_device(frozen, device, channels_last=runtime.channels_last)
        in_order = bool((columns == range(len(columns))).all())
        self.columns = None if in_order else torch.from_numpy(columns).to(device)
        self.rescale = None if (own.mean, own.std) == (data.mean, data.std) else _rescale(data, own, device)
        self.device, self.precision = device, runtime.teacher_precision
        if runtime.teacher_precision == "bf16":
            # Rounded once, as autocast would round them in every step. Autocast keeps no copy of weights that
            # are not trained, and rounding each anew would cost as many launches as the layers themselves.
            for layer in self.model.modules():
                if isinstance(layer, nn.Conv2d | nn.Linear):
                    layer.to(torch.bfloat16)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Compute logits, (B, len(wanted)) float32, of images, (B, 3, H, W), normalised for the student."""
        if self.rescale is not None:
            images = images * self.rescale[0] + self.rescale[1]
        with autocast(self.device, self.precision):
            logits: Tensor = self.model(images)
        logits = logits.float()
        return logits if self.columns is None else logits[:, self.columns]


class Teachers:
    """The loaded teachers of a run: a `TeacherSource` that computes logits batch by batch.

    Args:
        old: checkpoint of the old model, or None.
        refs: checkpoints of the references; the logits of several are averaged.
        classes: the split's class order.
        data, runtime, device: of the run.

    Attributes:
        members: the teachers that were given, by role; several references are one teacher.
        digests: digest of each checkpoint, by the teacher's name: ``old``, and ``ref`` or ``ref0``, ``ref1``
            and so on.
        metas: meta of each checkpoint, by its path.

    Raises:
        CheckpointError: a checkpoint is damaged or does not fit the split.
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

        def load_teacher(name: str, path: Path, wanted: Sequence[str]) -> Teacher:
            """Load a teacher, and add its digest and meta to the attributes."""
            checkpoint = load_checkpoint(path)
            self.digests[name] = checkpoint.digest
            self.metas[path] = checkpoint.meta
            return Teacher(checkpoint, wanted, data, device, runtime, str(path))

        self.members: dict[Role, list[Teacher]] = {}
        if old is not None:
            self.members[Role.OLD] = [load_teacher(Role.OLD.value, old, classes.old)]
        if refs:
            pairs = zip(names_of_references(len(refs)), refs, strict=True)
            self.members[Role.REF] = [load_teacher(n, path, classes.names) for n, path in pairs]

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """Compute the logits of some teachers; see `TeacherSource.logits`."""
        return {
            role: _mean_logits(members, batch.images)
            for role, members in self.members.items()
            if role in roles
        }


def _mean_logits(members: Sequence[Teacher], images: Tensor) -> Tensor:
    """Compute the mean of the logits of at least one teacher, (B, C) float32, of images, (B, 3, H, W)."""
    total: Tensor = members[0](images)
    for member in members[1:]:
        total = total + member(images)
    return total / len(members) if len(members) > 1 else total


def _rescale(data: DataRecipe, own: DataRecipe, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return factor and offset, (1, 3, 1, 1) each, from the student's normalisation to the teacher's.

    Args:
        data: has the student's normalisation.
        own: has the teacher's.
        device: of the result.
    """
    mean, std, own_mean, own_std = (
        torch.tensor(v, device=device).reshape(1, 3, 1, 1) for v in (data.mean, data.std, own.mean, own.std)
    )
    return std / own_std, (mean - own_mean) / own_std
