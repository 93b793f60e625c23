"""Several workers: their steps are those of one, and their batch statistics are torch's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mptctl.data.loading.part import Batch
from mptctl.data.plan import worker_share
from mptctl.methods.table import build_method
from mptctl.models.networks import build_model, set_training_mode
from mptctl.recipe import ModelRecipe, OptimRecipe
from mptctl.training.distributed import ProcessGroup, convert_sync_batchnorm
from mptctl.training.optimizer.guard import NonFiniteGuard
from mptctl.training.optimizer.optim import build_optimizer
from mptctl.training.run import Student
from mptctl.training.step import train_step
from tests.common import CPU, short_recipe


def with_workers(folder: Path, size: int, work: Callable[[int], Any]) -> list[Any]:
    """The result of ``work(rank)`` in each of so many processes of one gloo group, forked from this one."""
    children = []
    for rank in range(size):
        if child := os.fork():
            children.append(child)
            continue
        try:
            store = dist.FileStore(str(folder / "store"), size)
            dist.init_process_group(
                "gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60)
            )
            torch.save(work(rank), folder / f"{rank}.pt")
            dist.destroy_process_group()
            os._exit(0)
        finally:
            os._exit(1)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * size
    return [torch.load(folder / f"{rank}.pt") for rank in range(size)]


def test_ten_steps_at_a_high_rate_are_those_of_one_worker_in_double_precision(tmp_path: Path) -> None:
    """Rounding is out of the way: the step and the averaged gradients as a whole, with frozen batch statistics."""
    pictures = torch.randn(10, 50, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.randint(10, (10, 50), generator=torch.Generator().manual_seed(1))

    def trained(rank: int, size: int) -> list[Tensor]:
        group = ProcessGroup(rank, size)
        torch.manual_seed(0)
        recipe = ModelRecipe(arch="digits-net", freeze=("norm-statistics",))
        model = build_model(recipe, 10, 8).double()
        set_training_mode(model, recipe)
        optim = OptimRecipe.model_validate({"lr": 0.5})
        student = Student(
            recipe=short_recipe(), model=model, wrapped=group.wrap(model, CPU),
            optimizer=build_optimizer(optim, model, ""),
            method=build_method("no-treatment", num_old=10), teachers=None, guard=NonFiniteGuard(model, CPU),
            group=group,
        )  # fmt: skip
        share = worker_share(50, rank, size)
        losses = torch.zeros(10, dtype=torch.float64)
        for step in range(10):
            part = Batch(pictures[step, share], labels[step, share], torch.arange(share.stop - share.start))
            losses[step] = train_step(student, part, 0.5, 50 / size)["loss"].double() / size
        return [losses, *model.state_dict().values()]

    alone, parts = trained(0, 1), with_workers(tmp_path, 3, lambda rank: trained(rank, 3))
    losses = torch.stack([part[0] for part in parts]).sum(0)
    torch.testing.assert_close(losses, alone[0], rtol=1e-9, atol=0)
    assert float(losses.std()) > 0.01
    for part in parts:
        for found, wanted in zip(part[1:], alone[1:], strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("arch", ["resnet18", "timm:efficientnet_b0"])
def test_on_gpus_it_is_torchs_own_layer(arch: str) -> None:
    """It needs several GPUs to compute in training; its type and names are seen without one."""
    if arch.startswith("timm:"):
        pytest.importorskip("timm")
    model = build_model(ModelRecipe(arch=arch), 10, 32).eval()
    x, before = torch.randn(2, 3, 32, 32), list(model.state_dict())
    answers = model(x)
    model = convert_sync_batchnorm(model)
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    assert norms
    assert all(isinstance(norm, nn.SyncBatchNorm) for norm in norms)
    assert list(model.state_dict()) == before
    assert torch.equal(model(x), answers)
