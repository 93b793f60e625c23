"""The average of a student's weights: against its formula, in training, and after a kill."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from mptctl.data.split import Split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import MetricsLine
from mptctl.training.optimizer.average import WeightAverage
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import Log, Train, short_recipe

EMA = "optim.ema=0.75"


def by_formula(states: list[dict[str, Tensor]], decay: float) -> dict[str, Tensor]:
    """a_1 = w_1, a_t = decay a_(t-1) + (1 - decay) w_t; counters are the latest."""
    average = {key: tensor.double() for key, tensor in states[0].items()}
    for state in states[1:]:
        for key, tensor in state.items():
            latest = tensor.double()
            average[key] = (
                decay * average[key] + (1 - decay) * latest if tensor.is_floating_point() else latest
            )
    return average


def test_weights_and_batch_statistics_are_averaged_by_the_formula() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
    average = WeightAverage(model, 0.9)
    states = []
    for _ in range(5):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        model(torch.randn(6, 3, dtype=torch.float64))
        average.count_step()
        average.follow(model)
        states.append({key: tensor.clone() for key, tensor in model.state_dict().items()})
    found = average.model.state_dict()
    for key, wanted in by_formula(states, 0.9).items():
        assert torch.allclose(found[key].double(), wanted, atol=1e-12), key
    assert found["1.num_batches_tracked"] == 5
    # A double, by hand: two steps of one weight.
    one = nn.Linear(1, 1, bias=False).double()
    short = WeightAverage(one, 0.75)
    for value in (2.0, 6.0):
        nn.init.constant_(one.weight, value)
        short.count_step()
        short.follow(one)
    assert float(short.model.weight) == 3.0  # type: ignore[arg-type]


class Steps(Log):
    """Keeps the student's weights after each step."""

    def __init__(self, last: Path) -> None:
        super().__init__()
        self.last = last
        self.states: list[dict[str, Tensor]] = []

    def line(self, line: MetricsLine) -> None:
        super().line(line)
        if line.event == "checkpoint":
            checkpoint = load_checkpoint(self.last)
            if checkpoint.meta.global_step > len(self.states):
                self.states.append(checkpoint.model)


def saved_each_step(digits: Split, name: str, *more: str) -> Steps:
    recipe = short_recipe("optim.max_steps=6", "runtime.checkpoint_every_steps=1", *more)
    folder = digits.run_root / name
    log = Steps(folder / "last.pt")
    train(RunRequest(recipe=recipe, split=digits, folder=folder), log)
    return log


def test_the_best_checkpoint_holds_the_average_and_the_last_one_the_student(digits: Split) -> None:
    log = saved_each_step(digits, "average", EMA)
    assert len(log.states) == 6
    folder = digits.run_root / "average"
    best, last = load_checkpoint(folder / "best.pt"), load_checkpoint(folder / "last.pt")
    wanted = by_formula(log.states, 0.75)
    for key, tensor in best.model.items():
        assert torch.allclose(tensor.double(), wanted[key], rtol=1e-5, atol=1e-6), key
    assert any(not torch.equal(best.model[key], last.model[key]) for key in last.model)
    # The student itself learns as without an average.
    plain = saved_each_step(digits, "plain")
    assert all(torch.equal(last.model[key], plain.states[-1][key]) for key in last.model)
    assert "average" not in (load_checkpoint(digits.run_root / "plain" / "last.pt").training or {})


def test_validation_is_of_the_average(digits: Split, run: Train) -> None:
    """With a decay next to 1 the average stays what it was after the first step."""
    first, _ = run(short_recipe("optim.max_steps=1"), "first")
    whole, _ = run(short_recipe("optim.ema=0.9999999"), "whole")
    assert whole.validation.errors == first.validation.errors
