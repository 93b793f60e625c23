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


def test_the_cosine_spans_the_runs_own_length() -> None:
    cosine = recipe(lr=0.2, schedule="cosine")
    assert learning_rate(cosine, 0, 10, 40) == pytest.approx(0.2)
    assert learning_rate(cosine, 20, 10, 40) == pytest.approx(0.1)
    assert learning_rate(cosine, 39, 10, 40) == pytest.approx(0.2 * 0.5 * (1 - 0.996917333733), rel=1e-6)


def test_a_cosine_with_a_least_rate_ends_there() -> None:
    cosine = recipe(lr=0.1, lr_for_batch=64, batch_size=128, schedule="cosine", min_lr=0.05)
    rates = [learning_rate(cosine, step, 10, 40) for step in (0, 20, 40)]
    assert rates == pytest.approx([0.2, 0.125, 0.05])


def test_the_step_schedule_drops_every_thirty_epochs() -> None:
    step = recipe(lr=0.1, schedule="step", step_epochs=30)
    rates = [learning_rate(step, epoch * 5, 5, 450) for epoch in (0, 29, 30, 59, 60, 89)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_the_step_schedule_drops_after_each_milestone() -> None:
    step = recipe(lr=0.1, schedule="step", milestones=(40, 60))
    rates = [learning_rate(step, s, 7, 700) for s in (0, 40 * 7 - 1, 40 * 7, 60 * 7 - 1, 60 * 7, 699)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_gamma_is_the_factor_of_each_drop() -> None:
    step = recipe(lr=0.1, schedule="step", step_epochs=2, gamma=0.5)
    assert [learning_rate(step, s, 1, 6) for s in range(6)] == pytest.approx(
        [0.1, 0.1, 0.05, 0.05, 0.025, 0.025]
    )


def test_warm_up_rises_linearly_and_then_hands_over() -> None:
    warm = recipe(lr=0.1, schedule="constant", warmup_epochs=2)
    assert [learning_rate(warm, s, 2, 100) for s in range(5)] == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1])


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


def test_sgd_by_hand() -> None:
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(2.0)
    optimizer = build_optimizer(recipe(lr=0.1, momentum=0.5, weight_decay=0.25), model, "")
    for _ in range(2):
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    # g = 1 + 0.25 * 2 = 1.5, w = 1.85; then g = 1.4625, v = 0.75 + 1.4625 = 2.2125, w = 1.62875.
    assert model.weight.item() == pytest.approx(1.62875)


def test_what_is_not_trained_is_not_in_the_optimizer() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    assert len(build_optimizer(recipe(), model, "").param_groups[0]["params"]) == 2


@pytest.mark.parametrize("nesterov", [False, True])
def test_nesterov_looks_ahead_by_hand(nesterov: bool) -> None:
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(2.0)
    keys = {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.0, "nesterov": nesterov}
    optimizer = build_optimizer(recipe(**keys), model, "")
    weight, velocity = 2.0, 0.0
    for _ in range(3):
        model(torch.ones(1, 1)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        gradient = 2 * weight
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
    more, log = run(load_recipe(str(result.run.recipe), [*keys, "optim.epochs=2"]), resume=True)
    assert more.steps == 2 * result.steps
    rates = [line.lr for line in log.lines if line.event == "step"]
    assert rates == pytest.approx([0.08] * max(1, len(rates)))  # on a slow machine there are several
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


def test_weights_are_as_they_were_where_a_step_fails() -> None:
    layer = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)
    optimizer = build_optimizer(recipe(lr=0.1), layer, "")
    layer(torch.randn(1, 2, 3, 3)).sum().backward()

    def fail() -> None:
        with in_memory_order(optimizer):
            assert layer.weight.shape == (3, 3, 3, 2)
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        fail()
    assert layer.weight.shape == (3, 2, 3, 3)
