"""The step as a graph, without a GPU: what it would freeze is found, and a tape of a step trains as eager steps do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.recipe import Recipe, load_recipe
from mptctl.training.graphed import WARM_STEPS, GraphedStep, Recording
from mptctl.training.plan import check_request, takes_graph
from mptctl.training.request import RunRequest
from mptctl.training.run import Student
from mptctl.training.step import begin_step, compute_step, train_step
from tests.common import CPU, short_recipe
from tests.graphed_steps import (
    SMALL,
    STEPS,
    check_bits_after_checkpoint,
    check_eager_bits,
    check_no_weight_moves,
    make_batches,
    make_student,
    rate,
    take_steps,
)
from tests.imagined_gpu import GPU, imagined_gpu
from tests.tape import Tape, TapeRecorder, Terms, differences

ALL = ("optim.ema=0.9", "optim.name=adamw", "optim.clip_grad_norm=1.0", "optim.accumulate=2")
LATE = ("method.elodi_start_epoch=1", "optim.name=adam")
MOVING_K = "method.k_schedule=linear-to-zero"
CASES = {
    "plain": ("no-treatment", ()),
    "moving k": ("mpt-kl", (MOVING_K,)),
    "average, clipping, accumulation, adamw": ("mpt-kl", (*ALL, MOVING_K)),
    "average, clipping, accumulation, sgd": ("mpt-lm", (*ALL, "optim.name=sgd")),
    "mixed": ("mpt-lm", ("data.mixup=1",)),
    "another method halfway": ("elodi-topk", LATE),
}
# Teachers of one kind each, which answer before the step that is recorded.
TEACHERS_BESIDE = ("moving k", "mixed", "another method halfway")


def recipe_of(case: str, *more: str) -> Recipe:
    method, keys = CASES[case]
    return short_recipe("optim.batch_size=12", "optim.lr=0.05", *keys, *more, method=method)


def record_two_steps(
    student: Student, recipe: Recipe, device: torch.device, *, freeze_k: bool = False
) -> tuple[Tape, Tape]:
    """A step with one rate, k and batch, and one with others, which lie in the same memory."""
    batches = make_batches(recipe, device)
    train_step(student, batches[0], 0.1, 12)
    static, tapes = batches[1], []
    k = torch.zeros((), device=device)
    for step in (1, 2):
        k.fill_(step)
        settings = student.method.settings._replace(k=float(step) if freeze_k else k)
        student = replace(student, method=replace(student.method, settings=settings))
        static.images.copy_(batches[step].images)
        static.labels.copy_(batches[step].labels)
        begin_step(student, rate(recipe, step))
        with Tape() as tape:
            compute_step(student, static.split_into(student.recipe.optim.accumulate), 12)
        tapes.append(tape)
    return tapes[0], tapes[1]


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "imagined"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "mixed"])
def test_a_graph_would_freeze_nothing(case: str, device: torch.device) -> None:
    with imagined_gpu() if device == GPU else torch.enable_grad():
        recipe = recipe_of(case, "method.elodi_start_epoch=0")
        one, other = record_two_steps(make_student(recipe, device), recipe, device)
    assert len(one.ops) > 50
    assert differences(one, other) == []


def freeze_rate(student: Student) -> None:
    for group in student.optimizer.param_groups:
        group["lr"] = 0.1


@pytest.mark.parametrize(
    ("what", "line"), [("rate", r"_fused_sgd_.*0\.0497.* is 0\.048"), ("k", r"full.*: 1\.0 is 2\.0")]
)
def test_what_is_frozen_is_found(what: str, line: str) -> None:
    recipe = recipe_of("moving k")
    student = make_student(recipe, CPU)
    if what == "rate":
        freeze_rate(student)
    said = differences(*record_two_steps(student, recipe, CPU, freeze_k=what == "k"))
    assert any(re.search(line, each) for each in said), said


@pytest.mark.parametrize(
    ("case", "inside"), [*((case, True) for case in CASES), *((case, False) for case in TEACHERS_BESIDE)]
)
def test_twenty_steps_from_a_tape_are_twenty_eager_ones(case: str, inside: bool) -> None:
    recorder = TapeRecorder()
    step = GraphedStep(recorder, teachers_inside=inside)
    check_eager_bits(recipe_of(case), CPU, step)
    changes = case == "another method halfway"
    assert recorder.recorded == 1 + changes
    assert recorder.taken == WARM_STEPS * (1 + changes) + 1  # and the small batch
    step.close()


def test_a_run_that_goes_on_from_a_checkpoint_takes_the_same_steps() -> None:
    first, second = (GraphedStep(TapeRecorder(), teachers_inside=True) for _ in range(2))
    check_bits_after_checkpoint(recipe_of("average, clipping, accumulation, adamw"), CPU, first, second)


class NoTape(TapeRecorder):
    """A recorder of a step that no recording can hold."""

    def record(self, step: Callable[[], Terms]) -> Recording:
        raise UsageError("a step cannot be captured")


def test_where_a_step_cannot_be_recorded_all_are_taken_without_and_it_is_said_once() -> None:
    recipe, told = recipe_of("moving k"), list[str]()
    check_eager_bits(recipe, CPU, GraphedStep(NoTape(), teachers_inside=True, on_failure=told.append))
    assert told == ["steps are taken without a CUDA graph: a step cannot be captured"]
    with pytest.raises(UsageError, match="a step cannot be captured"):
        check_eager_bits(recipe, CPU, GraphedStep(NoTape(), teachers_inside=True))


@pytest.mark.parametrize(
    ("keys", "device", "workers", "graph"),
    [
        ((), torch.device("cuda"), 1, True),
        ((), torch.device("cuda"), 2, False),
        ((), CPU, 1, False),
        (("runtime.compile=true",), torch.device("cuda"), 1, False),
        (("model.dropblock=0.1", "model.arch=resnet18"), torch.device("cuda"), 1, False),
        (("runtime.graph=false",), torch.device("cuda"), 1, False),
        (("runtime.graph=true",), torch.device("cuda"), 1, True),
    ],
)
def test_a_graph_is_taken_where_it_can_hold_a_step_unless_the_recipe_says_otherwise(
    keys: tuple[str, ...], device: torch.device, workers: int, graph: bool
) -> None:
    recipe = load_recipe("digits", keys, {})
    assert takes_graph(recipe, device, workers) == graph


def test_a_small_batch_now_and_then_does_not_replace_the_recording() -> None:
    recipe = recipe_of("plain")
    batches, recorder, student = make_batches(recipe, CPU), TapeRecorder(), make_student(recipe, CPU)
    for step in range(4, STEPS, 3):
        batches[step] = batches[SMALL]
    take_steps(student, recipe, batches, range(STEPS), GraphedStep(recorder, teachers_inside=True))
    assert (recorder.recorded, recorder.taken) == (1, WARM_STEPS + len(range(4, STEPS, 3)))


@pytest.mark.parametrize("case", ["moving k", "average, clipping, accumulation, adamw"])
def test_no_weight_moves_from_a_step_on_that_is_not_finite(case: str) -> None:
    check_no_weight_moves(recipe_of(case), CPU, GraphedStep(TapeRecorder(), teachers_inside=True))


def test_what_no_graph_can_hold_is_refused(digits: Split, tmp_path: Path) -> None:
    for keys, said in (
        ("runtime.compile=true", "cannot hold a compiled student; set it or runtime.compile to false"),
        (
            "model.dropblock=0.1",
            "would keep the rate of DropBlock, which rises step by step; set it to false",
        ),
    ):
        with pytest.raises(UsageError, match=f"runtime.graph: {said}"):
            load_recipe("digits", ("runtime.graph=true", keys), {})
    request = RunRequest(short_recipe("runtime.graph=true"), digits, tmp_path / "run")
    with pytest.raises(
        UsageError, match=r"^runtime.graph: captures steps on a GPU, and this run computes on the cpu"
    ):
        check_request(request, CPU)
    with pytest.raises(
        UsageError, match=r"^runtime.graph: takes one worker, and this run has 2; set it to false$"
    ):
        check_request(request, torch.device("cuda", 0), 2)
