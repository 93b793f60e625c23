"""Rows are added up by the last program of a small batch's launch as by a launch of its own."""

import pytest
import torch

from mpt_kernels import arrivals
from tests.kernels.cases import Loss, beside, random_case


@pytest.mark.parametrize("rows", [3, 4, beside(1), beside(5), beside(8), beside(32)])
def test_the_last_program_sums_what_a_second_launch_sums(
    loss: Loss, backend: str, device: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "reference":
        pytest.skip("the reference launches nothing")
    from mpt_kernels import triton_backend

    case = random_case(rows, 7, 4, device=device)
    case.target[::4] = -100  # rows 0, 4 and so on count nowhere
    monkeypatch.setattr(triton_backend, "FEW_ROWS", next(few for few in (4, 8, 32) if rows <= few))
    one = case.run(loss, k=1.0)
    again = case.run(loss, k=1.0)
    monkeypatch.setattr(triton_backend, "FEW_ROWS", 0)
    two = case.run(loss, k=1.0)

    assert torch.equal(again.loss, one.loss)
    assert torch.equal(one.grad, two.grad)
    torch.testing.assert_close((one.loss, one.terms), (two.loss, two.terms), rtol=1e-6, atol=0)
    assert one.correct == two.correct


def test_one_row_more_takes_a_launch_of_its_own(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if backend == "reference":
        pytest.skip("the reference launches nothing")
    from mpt_kernels import triton_backend
    from mpt_kernels.types import LossSettings

    def sums_rows(n: int) -> bool:
        logits = torch.empty(n, 7)
        target = torch.empty(n, dtype=torch.int64)
        return triton_backend.plan(
            logits, target, None, None, None, logits, LossSettings(num_old=4)
        ).sums_rows

    monkeypatch.setattr(triton_backend, "FEW_ROWS", 32)
    assert [n for n in (0, 1, 32, 33) if sums_rows(n)] == [1, 32]


def test_a_counter_is_handed_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "COUNTERS", 3)
    pool = arrivals._Pool(torch.device("cpu"))
    taken = [pool.take() for _ in range(5)]
    assert [None if one is None else one.storage_offset() for one in taken] == [0, 4, 8, None, None]
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
        assert {one.storage_offset() for one in counters} == {0, 4}
        arrivals.give_back_counters(counters)
        assert counters == []
    assert arrivals.arrival_counter(card) is not None  # outside of such a block it is kept for good
    assert len(pool.free) == 1
