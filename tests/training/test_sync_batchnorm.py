"""Batch normalisation over several workers of gloo: what one worker computes with all pictures."""

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
from mptctl.models.networks import build_model
from mptctl.recipe import ModelRecipe, OptimRecipe
from mptctl.training.distributed import ProcessGroup
from mptctl.training.optimizer.guard import NonFiniteGuard
from mptctl.training.optimizer.optim import build_optimizer
from mptctl.training.run import Student
from mptctl.training.step import train_step
from mptctl.training.sync_batchnorm import convert_sync_batchnorm
from tests.common import CPU


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


def step(model: nn.Module, x: Tensor, grad: Tensor) -> dict[str, Tensor]:
    """Two forward and backward passes in training: output, gradients of the last one, and the state."""
    for _ in range(2):
        model.zero_grad()
        x = x.detach().requires_grad_()
        y = model(x)
        y.backward(grad)
    assert x.grad is not None
    gradients = {f"grad of {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"y": y.detach(), "x": x.grad, **gradients, **model.state_dict()}


def layer(kind: type[nn.Module], dtype: torch.dtype, **keys: Any) -> nn.Module:
    norm = kind(6, **keys).to(dtype)
    with torch.no_grad():
        for number, p in enumerate(norm.parameters()):
            p.copy_(torch.linspace(0.5, 1.5, 6) - number)
    return nn.Sequential(norm)


@pytest.mark.parametrize(
    ("keys", "shape", "shift"),
    [
        ({}, (6, 3, 3), 0.0),
        ({}, (6, 3, 3), 300.0),
        ({"momentum": None}, (6,), 0.0),
        ({"affine": False}, (6, 2, 2), 1.0),
        ({"track_running_stats": False}, (6,), 1.0),
    ],
    ids=["pictures", "far from zero", "cumulative", "no weights", "no running statistics"],
)
def test_unequal_parts_of_a_batch_give_what_one_worker_computes(
    tmp_path: Path, keys: dict[str, Any], shape: tuple[int, ...], shift: float
) -> None:
    kind = nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d
    generator = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(9, *shape, generator=generator, dtype=torch.float64) for _ in range(2))
    x = (x + shift).float()
    cuts = [slice(0, 5), slice(5, 8), slice(8, 9)]  # the last worker has one picture

    def work(rank: int) -> dict[str, Tensor]:
        model = convert_sync_batchnorm(layer(kind, torch.float32, **keys), CPU)
        return step(model, x[cuts[rank]], grad[cuts[rank]].float())

    parts = with_workers(tmp_path, 3, work)
    exact = step(layer(kind, torch.float64, **keys), x.double(), grad)
    single = step(layer(kind, torch.float32, **keys), x, grad.float())
    assert list(parts[0]) == list(exact)  # the names of the state, too
    for name, wanted in exact.items():
        if name in ("y", "x"):
            found = torch.cat([part[name] for part in parts])
        elif name.startswith("grad"):
            found = torch.stack([part[name] for part in parts]).sum(0)
        else:
            found = parts[0][name]
            assert all(torch.equal(part[name], found) for part in parts), name
        error = (found.double() - wanted).abs().max()
        own = (single[name].double() - wanted).abs().max()  # what one worker in single precision is off by
        assert error <= 2 * own + 1e-6 * wanted.abs().max(), name


def test_bfloat16_is_normalised_by_statistics_in_single_precision(tmp_path: Path) -> None:
    x = torch.randn(8, 6, 4, 4, generator=torch.Generator().manual_seed(1)).bfloat16()

    def work(rank: int) -> dict[str, Tensor]:
        model = convert_sync_batchnorm(layer(nn.BatchNorm2d, torch.float32), CPU)
        half = x[rank::2]
        return step(model, half, torch.ones_like(half))

    one, _ = with_workers(tmp_path, 2, work)
    alone = step(layer(nn.BatchNorm2d, torch.float32), x, torch.ones_like(x))
    assert one["y"].dtype == one["x"].dtype == torch.bfloat16
    assert one["0.running_var"].dtype == torch.float32
    torch.testing.assert_close(one["0.running_mean"], alone["0.running_mean"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(one["0.running_var"], alone["0.running_var"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(one["y"], alone["y"][::2])


def test_one_value_a_channel_over_all_workers_is_refused(tmp_path: Path) -> None:
    def work(rank: int) -> str:
        model = convert_sync_batchnorm(nn.BatchNorm1d(6), CPU)
        with pytest.raises(ValueError, match="1 value a channel over all workers; it needs 2"):
            model(torch.randn(1, 6))
        return "refused"

    assert with_workers(tmp_path, 1, work) == ["refused"]


def test_ten_steps_at_a_high_rate_are_those_of_one_worker_in_double_precision(tmp_path: Path) -> None:
    """Rounding is out of the way: the step, the averaged gradients and the batch statistics as a whole."""
    pictures = torch.randn(10, 50, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.randint(10, (10, 50), generator=torch.Generator().manual_seed(1))

    def trained(rank: int, size: int) -> list[Tensor]:
        group = ProcessGroup(rank, size)
        torch.manual_seed(0)
        model = build_model(ModelRecipe(arch="digits-net"), 10, 8).double()
        if size > 1:
            model = convert_sync_batchnorm(model, CPU)
        optim = OptimRecipe.model_validate({"lr": 0.1})
        student = Student(
            model=model,
            wrapped=group.wrap(model, CPU),
            optimizer=build_optimizer(optim, model, ""),
            method=build_method("no-treatment", num_old=10),
            teachers=None,
            guard=NonFiniteGuard(model, CPU),
            group=group,
        )
        share = worker_share(50, rank, size)
        losses = torch.zeros(10, dtype=torch.float64)
        for step in range(10):
            part = Batch(pictures[step, share], labels[step, share], torch.arange(share.stop - share.start))
            losses[step] = train_step(student, part, 0.1, 50 / size)["loss"].double() / size
        return [losses, *model.state_dict().values()]

    alone, parts = trained(0, 1), with_workers(tmp_path, 3, lambda rank: trained(rank, 3))
    losses = torch.stack([part[0] for part in parts]).sum(0)
    torch.testing.assert_close(losses, alone[0], rtol=1e-9, atol=0)
    assert float(losses.std()) > 0.01
    for part in parts:
        for found, wanted in zip(part[1:], alone[1:], strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("arch", ["digits-net", "resnet18", "timm:efficientnet_b0"])
def test_a_network_keeps_its_names_values_and_answers(arch: str) -> None:
    """timm's have an activation inside their batch normalisation."""
    if arch.startswith("timm:"):
        pytest.importorskip("timm")
    torch.manual_seed(0)
    model = build_model(ModelRecipe(arch=arch), 10, 32).eval()
    x = torch.randn(2, 3, 32, 32)
    before, answers = {name: t.clone() for name, t in model.state_dict().items()}, model(x)
    model = convert_sync_batchnorm(model, CPU)
    assert not any(type(module) is nn.BatchNorm2d for module in model.modules())
    assert list(model.state_dict()) == list(before)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert torch.equal(model(x), answers)


@pytest.mark.parametrize("arch", ["resnet18", "timm:efficientnet_b0"])
def test_on_gpus_it_is_torchs_own_layer(arch: str) -> None:
    """It needs several GPUs to compute in training; its type and names are seen without one."""
    if arch.startswith("timm:"):
        pytest.importorskip("timm")
    model = build_model(ModelRecipe(arch=arch), 10, 32).eval()
    x, before = torch.randn(2, 3, 32, 32), list(model.state_dict())
    answers = model(x)
    model = convert_sync_batchnorm(model, torch.device("cuda"))
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    assert norms
    assert all(isinstance(norm, nn.SyncBatchNorm) for norm in norms)
    assert list(model.state_dict()) == before
    assert torch.equal(model(x), answers)
