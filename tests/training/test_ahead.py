"""Teachers that are asked one batch ahead: the same numbers, sooner."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import pytest
import torch
from torch import Tensor

from mptctl.data.loading.part import Batch
from mptctl.data.split import Split
from mptctl.names import Role
from mptctl.training import ahead
from mptctl.training.ahead import TeachersAhead, has_spare_core
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import Log, short_recipe


class Recording:
    """Answers with the number of the batch; remembers where it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []
        self.second = threading.Event()

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        self.asked.append((batch.position, threading.current_thread().name))
        if batch.position == 4:
            self.second.set()
        if batch.position == 8:
            raise ValueError("the third batch")
        return {role: torch.full((len(batch.labels), 2), float(batch.position)) for role in roles}


def batches(count: int) -> list[Batch]:
    """Of four samples each."""
    index = torch.arange(4)
    return [Batch(torch.zeros(4, 3, 2, 2), index, index, position=4 * i) for i in range(count)]


def test_the_next_batch_is_answered_before_it_is_asked_for() -> None:
    source = Recording()
    teachers = TeachersAhead(source, 1)
    with closing(teachers):
        given = teachers.over(iter(batches(2)), {Role.OLD})
        first = next(given)
        assert source.second.wait(60)  # while nothing was asked at all
        assert teachers.logits(first, {Role.OLD})[Role.OLD].unique().tolist() == [0.0]
        second = next(given)
        assert teachers.logits(second, {Role.OLD})[Role.OLD].unique().tolist() == [4.0]
        assert next(given, None) is None
    assert [position for position, _ in source.asked] == [0, 4]
    assert threading.current_thread().name not in {name for _, name in source.asked}


def test_parts_of_a_batch_are_answered_one_by_one_and_who_stops_in_the_middle_leaves_no_thread() -> None:
    before, teachers = threading.active_count(), TeachersAhead(Recording(), 2)
    with closing(teachers):
        given = teachers.over(iter(batches(2)), {Role.REF})
        answers = [teachers.logits(part, {Role.REF})[Role.REF] for part in next(given).split_into(2)]
    assert [(len(part), part[0, 0].item()) for part in answers] == [(2, 0.0), (2, 2.0)]
    assert threading.active_count() == before


def test_what_a_teacher_raises_reaches_the_step_that_asks() -> None:
    teachers = TeachersAhead(Recording(), 1)
    with closing(teachers):
        given = teachers.over(iter(batches(3)), {Role.OLD})
        for _ in range(2):
            teachers.logits(next(given), {Role.OLD})
        with pytest.raises(ValueError, match="the third batch"):
            teachers.logits(next(given), {Role.OLD})


@pytest.mark.parametrize(
    ("device", "workers", "cores", "spare"),
    [("cpu", 1, 2, True), ("cpu", 1, 1, False), ("cpu", 2, 2, False), ("cuda", 1, 8, False)],
)
def test_a_core_is_spare_where_a_cpu_computes_on_fewer_than_all(
    monkeypatch: pytest.MonkeyPatch, device: str, workers: int, cores: int, spare: bool
) -> None:
    monkeypatch.setattr(ahead, "usable_cores", lambda: cores)
    assert torch.get_num_threads() == 1
    assert has_spare_core(torch.device(device), workers) is spare


@pytest.mark.parametrize(
    ("method", "overrides"),
    [
        ("mpt-lm", ("optim.accumulate=3", "optim.max_steps=20")),
        (
            "pct-kl",
            ("runtime.teacher_precision=bf16", "runtime.precision=bf16", "runtime.channels_last=false"),
        ),
        ("mpt-kl", ("runtime.cache_teachers=true", "runtime.cache_precision=fp32", "model.train=head")),
    ],
)
def test_weights_are_bit_equal_with_a_core_to_spare_and_without(
    taught: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, overrides: tuple[str, ...]
) -> None:
    root = taught.run_root
    asked: list[str] = []
    real = TeachersAhead.logits

    def logits(self: TeachersAhead, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        asked.append("ahead")
        return real(self, batch, roles)

    monkeypatch.setattr(TeachersAhead, "logits", logits)
    weights = []
    for cores in (1, 2):
        monkeypatch.setattr(ahead, "usable_cores", lambda cores=cores: cores)
        folder = tmp_path / str(cores)
        recipe = short_recipe(*overrides, method=method)
        refs = (root / "ref" / "best.pt",) if method.startswith("mpt") else ()
        request = RunRequest(
            recipe, taught, folder, root / "old" / "best.pt", refs, cache_dir=tmp_path / f"cache-{cores}"
        )
        train(request, Log())
        weights.append(torch.load(folder / "last.pt", weights_only=True)["model"])
        assert bool(asked) == (cores == 2)
    one, other = weights
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
