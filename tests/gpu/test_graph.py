"""The step as a CUDA graph: twenty steps from a graph leave the bits of twenty eager ones, also after a kill.

With algorithms that repeat themselves, so that no bit may differ. In a rehearsal the steps are recorded on a tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.machine.device import choose_device
from mptctl.models.run_folder import RunDir
from mptctl.recipe import Recipe, load_recipe
from mptctl.training.graphed import CudaRecorder, GraphedStep
from mptctl.training.torch_settings import torch_settings
from mptctl.training.train import train
from tests.common import Log, assert_same_run, short_recipe
from tests.gpu.card import DEVICE, REHEARSED, needs_card, skip_without_card
from tests.gpu.test_training import SAME_BITS, kill_and_resume, request_of
from tests.graphed_steps import (
    STEPS,
    check_bits_after_checkpoint,
    check_eager_bits,
    check_no_weight_moves,
    make_batches,
    make_student,
    take_steps,
)
from tests.tape import TapeRecorder

skip_without_card()
pytestmark = pytest.mark.gpu

Graphed = Callable[..., GraphedStep]
ALL = ("optim.ema=0.9", "optim.name=adamw", "optim.clip_grad_norm=1.0", "optim.accumulate=2")
CASES = {
    "no-treatment": ("no-treatment", ()),
    "mpt-kl, moving k": ("mpt-kl", ("method.k_schedule=linear-to-zero",)),
    "mpt-lm, all": ("mpt-lm", ALL),
    "mpt-lm, mixed": ("mpt-lm", ("data.mixup=1",)),
    "mpt-kl, bf16": ("mpt-kl", ("runtime.precision=bf16", "runtime.teacher_precision=bf16")),
    "elodi-topk, begins late": ("elodi-topk", ("method.elodi_start_epoch=1", "optim.name=adam")),
}
BIT_EQUAL = (f"runtime.device={DEVICE}", "runtime.deterministic=true", "optim.batch_size=32", "optim.lr=0.05")


def recipe_of(case: str) -> Recipe:
    method, keys = CASES[case]
    return short_recipe(*BIT_EQUAL, *keys, method=method)


def resnet18() -> Recipe:
    """At 32 pixels, with the stem that has no pooling, whose backward pass may sum in any order."""
    keys = ("model.stem=small", "optim.clip_grad_norm=1.0", *BIT_EQUAL)
    return load_recipe("cifar100", keys, {"method.name": "mpt-kl"})


@pytest.fixture(autouse=True)
def same_bits() -> Iterator[None]:
    choose_device(str(DEVICE))
    with torch_settings(recipe_of("no-treatment"), DEVICE):
        yield


@pytest.fixture
def graphed() -> Iterator[Graphed]:
    """Make graphs that are closed when the test ends."""
    made = []

    def make(inside: bool = True) -> GraphedStep:
        made.append(
            GraphedStep(TapeRecorder() if REHEARSED else CudaRecorder(DEVICE), teachers_inside=inside)
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("case", CASES)
def test_steps_from_a_graph_leave_the_bits_of_eager_ones(case: str, graphed: Graphed) -> None:
    check_eager_bits(recipe_of(case), DEVICE, graphed())


@needs_card
def test_so_do_those_of_a_resnet18(graphed: Graphed) -> None:
    check_eager_bits(resnet18(), DEVICE, graphed())


def test_logits_from_outside_of_the_graph_give_the_same_bits(graphed: Graphed) -> None:
    check_eager_bits(recipe_of("mpt-kl, moving k"), DEVICE, graphed(inside=False))


def test_steps_after_a_checkpoint_are_those_of_a_run_without_one(graphed: Graphed) -> None:
    check_bits_after_checkpoint(recipe_of("mpt-lm, all"), DEVICE, graphed(), graphed())


@pytest.mark.parametrize("case", ["mpt-kl, moving k", "mpt-lm, all"])
def test_a_step_that_is_not_finite_stops_all_weights(case: str, graphed: Graphed) -> None:
    check_no_weight_moves(recipe_of(case), DEVICE, graphed())


@needs_card
def test_a_killed_run_resumes_with_the_bits_of_a_run_without_a_graph(taught: Split, tmp_path: Path) -> None:
    keys = (*SAME_BITS, "optim.ema=0.9", "method.k_schedule=linear-to-zero")
    eager = short_recipe(*keys, method="mpt-kl")
    recipe = short_recipe(*keys, "runtime.graph=true", method="mpt-kl")
    train(request_of(taught, tmp_path / "eager", eager), Log())
    train(request_of(taught, tmp_path / "whole", recipe), Log())
    assert_same_run(RunDir(tmp_path / "whole"), RunDir(tmp_path / "eager"))
    kill_and_resume(taught, tmp_path / "killed", recipe)
    assert_same_run(RunDir(tmp_path / "killed"), RunDir(tmp_path / "eager"))


class _Looks(nn.Module):
    """Has the host look at a number in each forward pass, which no graph can hold."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        return logits * logits.new_ones(()).item()


# The last test: after a capture that has failed, torch keeps memory back.
@needs_card
def test_what_cannot_be_captured_is_said_in_one_line(graphed: Graphed) -> None:
    recipe = recipe_of("no-treatment")
    batches, student = make_batches(recipe, DEVICE), make_student(recipe, DEVICE)
    object.__setattr__(student, "wrapped", _Looks(student.model))
    stream = torch.cuda.current_stream()
    with pytest.raises(UsageError, match=r"^runtime.graph: a step of this run cannot be captured") as caught:
        take_steps(student, recipe, batches, range(STEPS), graphed())
    assert "\n" not in str(caught.value)
    assert torch.cuda.current_stream() == stream
