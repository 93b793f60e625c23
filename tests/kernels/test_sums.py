"""Programs are added up in blocks; layouts change no result."""

from functools import partial

import pytest
import torch

from mpt_kernels import mpt_loss
from mpt_kernels.layouts import NarrowLayout, Size, WideLayout, find_layout
from tests.kernels.cases import Loss, beside, random_case, relative_error


def test_more_programs_than_are_added_up_at_once(
    loss: Loss, wide: bool, backend: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "reference":
        pytest.skip("the reference launches nothing")
    from mpt_kernels import triton_backend

    # Two programs are added up at once. A program of the narrow kernel has 32 rows of 7 classes, of the wide one one.
    case = random_case(5 if wide else 70, 7, 4, device=device)
    truth = case.to(torch.float64).run(mpt_loss, k=1.0, backend="reference")
    monkeypatch.setattr(triton_backend, "SUMMED", (2, 2))
    out = case.run(loss, k=1.0)
    assert relative_error(out.loss, truth.loss) <= 5e-6
    assert out.correct == truth.correct


@pytest.mark.parametrize(
    "layout",
    [
        NarrowLayout(held=4),
        NarrowLayout(power=True),
        beside(NarrowLayout(held=4, power=True)),
        beside(NarrowLayout(held=8, warps=4)),
        beside(NarrowLayout(held=16, vector=1)),
    ],
)
def test_layouts_of_narrow_rows(backend: str, device: str, layout: NarrowLayout) -> None:
    if backend == "reference":
        pytest.skip("the reference has no layouts")
    check_layout(layout, 70, device)


@pytest.mark.parametrize(
    "layout",
    [WideLayout(warps=1, each=2), WideLayout(warps=1, power=True), beside(WideLayout(warps=8, caching=True))],
)
def test_layouts_of_wide_rows(
    backend: str, device: str, layout: WideLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "reference":
        pytest.skip("the reference has no layouts")
    from mpt_kernels import triton_backend

    monkeypatch.setattr(triton_backend, "NARROW", 0)
    check_layout(layout, 333, device)


def check_layout(layout: NarrowLayout | WideLayout, classes: int, device: str) -> None:
    """Compare the loss by a layout with double precision."""
    from mpt_kernels import triton_backend

    case = random_case(4, classes, classes // 2, device=device)
    case.target[1] = -100
    for model in (case.logits, case.old_logits, case.ref_logits):
        model[2, 1] = -float("inf")  # ruled out: this row is computed once more, with a guard
    case.target[2] = 0
    truth = case.to(torch.float64).run(mpt_loss, k=1.0, backend="reference")
    plan = triton_backend.plan

    planned = partial(plan, layout=layout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_backend, "plan", planned)
        out = case.run(mpt_loss, k=1.0, backend="triton")
    assert relative_error(out.grad, truth.grad) <= 5e-6
    assert relative_error(out.loss, truth.loss) <= 5e-6
    assert out.correct == truth.correct


def test_a_size_takes_the_layout_that_was_measured_for_the_next_larger_rows() -> None:
    small, large, few, many = (NarrowLayout(held=held) for held in (4, 16, 1, 2))
    table, by_default = (
        {Size(90, 128, 4, True): small, Size(90, 1024, 4, True): large},
        {True: few, False: many},
    )
    assert find_layout(table, by_default, 90, 100, 4, 512) == small
    assert find_layout(table, by_default, 90, 129, 4, 512) == large
    # Another GPU, another type, wider rows than were measured, and more rows than few: the default layout.
    assert find_layout(table, by_default, 80, 100, 4, 9) == by_default
    assert find_layout(table, by_default, 90, 100, 2, 9) == by_default
    assert find_layout(table, by_default, 90, 2000, 4, 9) == by_default
    assert find_layout(table, by_default, 90, 100, 4, 513) == by_default
