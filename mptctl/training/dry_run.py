"""What a run would be: put together as the run itself is, but no picture is decoded and nothing is written."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, get_args

import torch
from pydantic import BaseModel, ConfigDict, Field

from mptctl.data.loading.base import Loader
from mptctl.data.loading.batch import Batch
from mptctl.data.loading.choose import choose_loader
from mptctl.data.loading.part import BatchJob, LoadPlan
from mptctl.data.split import Split
from mptctl.machine.device import choose_device
from mptctl.machine.signals import StopRequest
from mptctl.models.run_folder import RunDir
from mptctl.names import Part
from mptctl.recipe import DataRecipe
from mptctl.training.distributed import ProcessGroup
from mptctl.training.job import RunRequest, assemble


class DryRun(BaseModel):
    """The object that the training verbs print with ``--dry-run --json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str = Field(description="the run folder")
    holds_run: bool = Field(description="whether it holds a run, so that --resume or --overwrite is needed")
    method: str = Field(description="name of the method")
    k: float = Field(description="bias on the logits of new classes; 0 for methods without it")
    seed: int = Field(description="of initial weights, order and augmentation")
    arch: str = Field(description="architecture")
    weights: int = Field(description="trained weights")
    classes: int = Field(description="that the model will know")
    old_classes: int = Field(description="how many of them are old")
    teachers: list[str] = Field(description="checkpoints, the old model first; they were read and fit")
    pictures: dict[Part, int] = Field(description="of these classes, in each part of the split")
    batch_size: int = Field(description="pictures of one optimizer step")
    lr: float = Field(description="learning rate at its height")
    steps_per_epoch: int = Field(description="optimizer steps of one epoch")
    total_steps: int = Field(description="optimizer steps of the whole run")
    from_step: int = Field(description="steps done before; above 0 with --resume")
    device: str = Field(description="where it would compute")
    loader: str = Field(description="chosen loader of the training part, and why")
    notes: list[str] = Field(description="what else was chosen, and warnings")


def dry_run(job: RunRequest) -> DryRun:
    """Look at everything that a run needs but its pictures.

    Args:
        job: what was asked for.

    Raises:
        MptctlError: what keeps the run from starting; see `assemble`.
    """
    recipe, split = job.recipe, job.split
    if job.resume or job.overwrite:
        RunDir(job.folder).refuse_unusable(resume=job.resume, overwrite=job.overwrite)
    # Nothing is computed, so a GPU is only looked up.
    device = choose_device(recipe.runtime.device)
    run = assemble(job, torch.device("cpu"), ProcessGroup(), StopRequest(), loader_of=_unread)
    return DryRun(
        run=str(job.folder),
        holds_run=RunDir(job.folder).last.exists(),
        method=run.method.name,
        k=float(run.method.settings.k),
        seed=recipe.runtime.seed,
        arch=recipe.model.arch,
        weights=sum(p.numel() for p in run.model.parameters() if p.requires_grad),
        classes=job.num_classes,
        old_classes=split.classes.num_old,
        teachers=[str(path) for path in (job.old, *job.refs) if path is not None],
        pictures={part: len(split.indices(part, job.num_classes)) for part in get_args(Part)},
        batch_size=recipe.optim.batch_size,
        lr=recipe.optim.lr,
        steps_per_epoch=run.train.steps_per_epoch,
        total_steps=run.total_steps,
        from_step=run.progress.global_step,
        device=str(device),
        loader=run.train.reason,
        notes=[note for note in run.notes if note != run.train.reason],
    )


class _Unread(Loader):
    """The loader that would be chosen, without its pictures."""

    def __init__(self, plan: LoadPlan) -> None:
        choice = choose_loader(plan)
        super().__init__(plan, choice.reason)
        self.name = choice.loader.name

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """None: a dry run reads no picture."""
        yield from ()


def _unread(
    split: Split, data: DataRecipe, part: Part, *, cache_dir: object, progress: object, **which: Any
) -> Loader:
    """Takes what `make_loader` takes."""
    return _Unread(LoadPlan(split=split, data=data, part=part, **which))
