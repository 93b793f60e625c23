"""Training on a GPU: the step and the loader in memory never make the host wait, and what fails is found out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from mptctl.bench.ways_to_train import ways_to_train
from mptctl.data.loading.choose import make_loader
from mptctl.data.split import Split
from mptctl.training.guard import NonFiniteGuard
from mptctl.training.optim import build_optimizer
from tests.common import short_recipe

if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Synchronization debug mode")]

DEVICE = torch.device("cuda", 0)


@contextmanager
def no_waiting() -> Iterator[None]:
    """Every wait of the host for the device is an error."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("method", ["mpt-kl", "mpt-lm", "pct-naive", "elodi-topk"])
def test_a_step_never_waits(method: str, precision: str, optimizer: str, tmp_path: Path) -> None:
    recipe = short_recipe(
        f"runtime.precision={precision}",
        f"optim.name={optimizer}",
        "optim.clip_grad_norm=1.0",
        "optim.accumulate=2",
        "optim.ema=0.9",
        "method.elodi_start_epoch=0",
        method=method,
    )
    step = ways_to_train(recipe, 10, DEVICE, tmp_path, ("ours",))[0]["ours"]
    for _ in range(2):  # compiles, and makes the optimizer's state
        step()
    with no_waiting():
        step()


def test_pictures_in_memory_never_wait(digits: Split) -> None:
    recipe = short_recipe()
    loader = make_loader(digits, recipe.data, "train", batch_size=64, seed=0, train=True, device=DEVICE)
    assert loader.name == "resident"
    batches = loader.epoch(0)
    next(batches)
    with no_waiting():
        next(batches)
    loader.close()


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_from_the_first_step_that_is_not_finite_no_weight_moves(name: str) -> None:
    model = torch.nn.Linear(3, 2, device=DEVICE)
    optimizer = build_optimizer(short_recipe(f"optim.name={name}").optim, model)
    guard = NonFiniteGuard(model, DEVICE)
    seen = []
    for factor in (1.0, float("nan"), 1.0):
        guard.before_forward()
        loss = model(torch.full((4, 3), factor, device=DEVICE)).square().sum()
        loss.backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        guard.check({"loss": loss.detach()}, gradients)
        optimizer.found_inf = guard.skip  # type: ignore[attr-defined]
        before = model.weight.detach().clone()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(torch.equal(model.weight, before))
    assert seen == [False, True, True]
    failed = guard.failed()
    assert failed is not None
    assert failed.step == 1
