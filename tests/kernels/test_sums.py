"""The last program of a launch adds up all programs, as a launch of its own does; layouts change no result."""

from functools import partial

import pytest
import torch

from mpt_kernels import arrivals, mpt_loss
from mpt_kernels.layouts import NarrowLayout, Size, WideLayout, find_layout
from tests.kernels.cases import Loss, beside, random_case, relative_error


@pytest.mark.parametrize("rows", [3, beside(1), beside(5), beside(8), beside(32)])
def test_the_last_program_adds_up_what_a_second_launch_adds_up(
    loss: Loss, backend: str, device: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "reference":
        pytest.skip("the reference launches nothing")
    from mpt_kernels import triton_backend

    case = random_case(rows, 7, 4, device=device)
    case.target[::4] = -100  # rows 0, 4 and so on count nowhere
    one = case.run(loss, k=1.0)
    again = case.run(loss, k=1.0)
    monkeypatch.setattr(triton_backend, "arrival_counter", lambda device: None)
    two = case.run(loss, k=1.0)

    assert torch.equal(again.loss, one.loss)
    assert torch.equal(one.grad, two.grad)
    torch.testing.assert_close((one.loss, one.terms), (two.loss, two.terms), rtol=1e-6, atol=0)
    assert one.correct == two.correct


def test_more_programs_than_the_last_one_adds_up_at_once(
    loss: Loss, backend: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "reference":
        pytest.skip("the reference launches nothing")
    from mpt_kernels import triton_backend

    # The narrow kernel's program has 32 rows of 7 classes: three programs, two of which are added up at once.
    case = random_case(70, 7, 4, device=device)
    truth = case.to(torch.float64).run(mpt_loss, k=1.0, backend="reference")
    monkeypatch.setattr(triton_backend, "SUMMED", 2)
    out = case.run(loss, k=1.0)
    assert relative_error(out.loss, truth.loss) <= 5e-6
    assert out.correct == truth.correct


@pytest.mark.parametrize(
    "layout",
    [
        NarrowLayout(held=4),
        NarrowLayout(held=32, stages=2, resident=1),
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
    [
        WideLayout(warps=1, each=2, unroll=1),
        WideLayout(warps=1, power=False),
        beside(WideLayout(warps=8, caching=True)),
    ],
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

    case = random_case(9, classes, classes // 2, device=device)
    case.target[1] = -100
    for model in (case.logits, case.old_logits, case.ref_logits):
        assert model is not None
        model[2, 1] = -float("inf")  # ruled out: this row is computed once more, with a guard
    case.target[2] = 0
    truth = case.to(torch.float64).run(mpt_loss, k=1.0, backend="reference")
    plan = triton_backend.plan
    # On one multiprocessor a program of a pipeline has several blocks.

    planned = partial(plan, layout=layout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_backend, "plan", planned)
        patch.setattr(triton_backend, "_multiprocessors", lambda device: 1)
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
    # Another GPU, another type, wider rows than were measured, and more rows than few: the default layouts.
    assert find_layout(table, by_default, 80, 100, 4, 9) == few
    assert find_layout(table, by_default, 90, 100, 2, 9) == few
    assert find_layout(table, by_default, 90, 2000, 4, 9) == few
    assert find_layout(table, by_default, 90, 100, 4, 513) == many


def test_a_counter_is_handed_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "COUNTERS", 3)
    pool = arrivals._Pool(torch.device("cpu"))
    taken = [pool.take() for _ in range(5)]
    assert [one is None for one in taken] == [False, False, False, True, True]
    assert len({one.data_ptr() for one in taken if one is not None}) == 3
    assert all(one is None or one.data_ptr() % 16 == 0 for one in taken)  # one compiled kernel serves all


def test_a_dropped_graph_gives_its_counters_back(monkeypatch: pytest.MonkeyPatch) -> None:
    here, card = torch.device("cpu"), torch.device("cuda", 0)
    monkeypatch.setattr(arrivals, "COUNTERS", 2)
    pool = arrivals._Pool(here)
    monkeypatch.setattr(arrivals, "_POOLS", {here: pool, card: pool})
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    for _ in range(3):  # graphs, one after the other, of two launches each
        with arrivals.captured_counters() as counters:
            taken = [arrivals.arrival_counter(card) for _ in range(3)]
        assert [one is None for one in taken] == [False, False, True]
        assert {one.storage_offset() for one in counters} == {0, arrivals._INTS}
        arrivals.give_back_counters(counters)
        assert counters == []
    assert arrivals.arrival_counter(card) is not None  # outside of such a block it is kept for good
    assert len(pool.free) == 1
