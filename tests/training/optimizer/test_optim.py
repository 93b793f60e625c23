"""The learning rate as a function of the step, and updates that a flag skips."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mptctl.data.split import Split
from mptctl.recipe import OptimRecipe, load_recipe
from mptctl.training.dry_run import dry_run
from mptctl.training.optimizer.optim import build_optimizer, in_memory_order, learning_rate
from mptctl.training.request import RunRequest
from tests.common import Train, short_recipe


def recipe(**keys: object) -> OptimRecipe:
    return OptimRecipe.model_validate(keys)


STEP = {"lr": 0.1, "schedule": "step"}


@pytest.mark.parametrize(
    ("keys", "steps_per_epoch", "total", "rates"),
    [
        # A cosine spans the run's own length: the last rate is 0.2 (1 + cos(39 pi / 40)) / 2.
        ({"lr": 0.2, "schedule": "cosine"}, 10, 40, {0: 0.2, 20: 0.1, 39: 0.000308266626671}),
        (
            {"lr": 0.1, "lr_for_batch": 64, "batch_size": 128, "schedule": "cosine", "min_lr": 0.05},
            10, 40, {0: 0.2, 20: 0.125, 40: 0.05},
        ),
        (STEP | {"step_epochs": 30}, 5, 450, {0: 0.1, 145: 0.1, 150: 0.01, 295: 0.01, 300: 0.001, 445: 0.001}),
        (STEP | {"milestones": (40, 60)}, 7, 700, {0: 0.1, 279: 0.1, 280: 0.01, 420: 0.001, 699: 0.001}),
        (STEP | {"step_epochs": 2, "gamma": 0.5}, 1, 6, {0: 0.1, 1: 0.1, 2: 0.05, 3: 0.05, 4: 0.025, 5: 0.025}),
        (
            {"lr": 0.1, "schedule": "constant", "warmup_epochs": 2},
            2, 100, {0: 0.025, 1: 0.05, 2: 0.075, 3: 0.1, 4: 0.1},
        ),
    ],
)  # fmt: skip
def test_the_rate_of_each_step_by_hand(
    keys: dict[str, object], steps_per_epoch: int, total: int, rates: dict[int, float]
) -> None:
    found = {step: learning_rate(recipe(**keys), step, steps_per_epoch, total) for step in rates}
    assert found == pytest.approx(rates, rel=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adamw", "adam"])
def test_a_flag_skips_the_update_and_nothing_else_does(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = build_optimizer(recipe(name=name, lr=0.1), model, "")

    def step(found: float) -> None:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.found_inf = torch.tensor(found)  # type: ignore[attr-defined]
        optimizer.step()
        optimizer.zero_grad()

    step(0.0)
    before = model.weight.detach().clone()
    momentum = {k: v.clone() for k, v in optimizer.state[model.weight].items() if k != "step"}
    step(1.0)
    assert torch.equal(model.weight, before)
    assert all(torch.equal(optimizer.state[model.weight][k], v) for k, v in momentum.items())
    step(0.0)
    assert not torch.equal(model.weight, before)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_by_hand(nesterov: bool) -> None:
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(2.0)
    keys = {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.25, "nesterov": nesterov}
    optimizer = build_optimizer(recipe(**keys), model, "")
    weight, velocity = 2.0, 0.0
    for _ in range(3):
        model(torch.ones(1, 1)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        gradient = 2 * weight + 0.25 * weight
        velocity = 0.5 * velocity + gradient
        weight -= 0.1 * (gradient + 0.5 * velocity if nesterov else velocity)
    assert model.weight.item() == pytest.approx(weight, rel=1e-6)


def test_adam_takes_its_decay_into_the_gradient() -> None:
    """The first step is the rate times the sign of gradient and penalty together; AdamW would shrink the weight too."""
    for gradient, moved in ((1.0, 1.9), (-1.0, 2.1)):
        model = nn.Linear(1, 1, bias=False)
        model.weight.data.fill_(2.0)
        optimizer = build_optimizer(recipe(name="adam", lr=0.1, weight_decay=0.25), model, "")
        (gradient * model(torch.ones(1, 1)).sum()).backward()
        optimizer.step()
        assert model.weight.item() == pytest.approx(moved, rel=1e-6)


@pytest.mark.parametrize(
    ("keys", "height"),
    [
        ({}, 0.1),
        ({"lr_for_batch": 128}, 0.4),  # 0.1 * 512 / 128
        ({"lr_for_batch": 1024}, 0.05),
        ({"lr_for_batch": 128, "lr_scale": "sqrt"}, 0.2),  # 0.1 * sqrt(512 / 128)
        ({"lr_for_batch": 512, "lr_scale": "sqrt"}, 0.1),
        ({"lr_scale": "sqrt"}, 0.1),  # nothing is said of a batch
    ],
)
def test_the_rate_is_scaled_to_the_batch_on_request(keys: dict[str, object], height: float) -> None:
    scaled = recipe(lr=0.1, batch_size=512, warmup_epochs=1, schedule="cosine", **keys)
    assert scaled.scaled_lr == pytest.approx(height)
    # Warm-up of 4 steps, the height, and half of it in the middle of the cosine.
    rates = [learning_rate(scaled, step, 4, 24) for step in (0, 4, 14)]
    assert rates == pytest.approx([height / 4, height, height / 2])
    model = nn.Linear(1, 1)
    assert build_optimizer(scaled, model, "").param_groups[0]["lr"] == pytest.approx(height)


def test_a_run_shows_the_rate_that_it_trains_with_and_goes_on_with_it(run: Train, digits: Split) -> None:
    """The recipe keeps what was said, so that the same command goes on, whoever reads it how often."""
    keys = ("optim.batch_size=256", "optim.lr_for_batch=64", "optim.lr=0.02", "optim.schedule=constant")
    scaled = short_recipe(*keys, "optim.epochs=1")
    result, log = run(scaled)
    text = result.run.recipe.read_text()
    assert text.splitlines()[0] == (
        "# learning rate at its height: 0.08 (optim.lr 0.02 for batches of 64, linear, for this one of 256)"
    )
    assert load_recipe(str(result.run.recipe)) == scaled
    rates = [line.lr for line in log.lines if line.event == "step"]
    assert rates == pytest.approx([0.08] * max(1, len(rates)))  # on a slow machine there are several
    assert dry_run(RunRequest(scaled, digits, digits.run_root / "next")).lr == pytest.approx(0.08)
    more, _ = run(load_recipe(str(result.run.recipe), [*keys, "optim.epochs=2"]), resume=True)
    assert more.steps == 2 * result.steps
    assert "#" not in short_recipe().to_yaml()


@pytest.mark.parametrize("gradients", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("name", ["sgd", "adamw", "adam"])
def test_a_step_is_that_of_contiguous_weights_however_weights_and_gradients_lie_in_memory(
    name: str, gradients: torch.memory_format
) -> None:
    last = torch.channels_last

    def trained(weights: torch.memory_format) -> tuple[nn.Conv2d, torch.optim.Optimizer]:
        torch.manual_seed(0)
        layer = nn.Conv2d(6, 8, 3).to(memory_format=weights)
        optimizer = build_optimizer(recipe(name=name, lr=0.1, nesterov=True, weight_decay=0.01), layer, "")
        for _ in range(3):
            drawn = torch.randn(8, 6, 3, 3)
            layer.weight.grad = drawn.contiguous(memory_format=gradients if weights == last else weights)
            with in_memory_order(optimizer):
                optimizer.step()
        return layer, optimizer

    (plain, _), (ours, optimizer) = trained(torch.contiguous_format), trained(last)
    torch.testing.assert_close(ours.weight, plain.weight, rtol=0, atol=1e-6)
    kept = [ours.weight, ours.weight.grad, *optimizer.state[ours.weight].values()]
    whole = [tensor for tensor in kept if isinstance(tensor, torch.Tensor) and tensor.dim()]
    assert len(whole) >= 3
    assert {tensor.shape for tensor in whole} == {(8, 6, 3, 3)}
    assert {tensor.stride() for tensor in whole} == {ours.weight.stride()} == {(54, 1, 18, 6)}
    # They lie so, too, where a step fails.
    with pytest.raises(RuntimeError, match="stopped"), in_memory_order(optimizer):
        raise RuntimeError("stopped")
    assert ours.weight.shape == (8, 6, 3, 3)
