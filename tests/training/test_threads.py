"""The number of threads of a run: timings by hand, who is asked first, and what is kept."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split
from mptctl.machine.facts import usable_cores
from mptctl.machine.kept_threads import (
    KeptThreads,
    keep_threads,
    machine_key,
    read_kept_threads,
    threads_file,
)
from mptctl.recipe import change_recipe, load_recipe
from mptctl.training import torch_settings
from mptctl.training.request import RunRequest
from mptctl.training.torch_settings import choose_fastest, choose_threads, time_threads
from tests.common import CPU, Train, short_recipe

needs_two_cores = pytest.mark.skipif(usable_cores() < 2, reason="one core leaves nothing to find")


@pytest.fixture
def nobody_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Nobody has said how many threads, nothing else computes, and nothing is kept as yet."""
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    return monkeypatch


@pytest.fixture
def request_of(digits: Split) -> RunRequest:
    """A run of two steps, whose recipe leaves open how many threads it takes."""
    recipe = short_recipe("optim.max_steps=2", "runtime.threads=0")
    return RunRequest(recipe=recipe, split=digits, folder=digits.run_root / "run")


def made_up(monkeypatch: pytest.MonkeyPatch, step: dict[int, float], answer: float = 0.0) -> None:
    """Steps that take so many seconds by number of threads, and answers that take ``answer`` seconds a batch."""
    monkeypatch.setattr(torch_settings, "step_seconds", lambda recipe, *_: step[recipe.runtime.threads])
    monkeypatch.setattr(
        torch_settings, "seconds_per_picture", lambda recipe, *_: answer / recipe.optim.batch_size
    )


@pytest.mark.parametrize(
    ("step_ms", "best"),
    [
        ({1: 50.0}, 1),
        ({2: 100.0, 1: 96.0}, 2),  # 100 is 4 % more than 96: no more than timings differ by
        ({2: 100.0, 1: 95.0}, 1),  # 95 x 1.05 is 99.75
        ({2: 100.0, 1: 190.0}, 2),
        ({8: 100.0, 4: 60.0, 2: 50.0, 1: 90.0}, 2),
    ],
)
def test_all_cores_are_taken_unless_fewer_are_clearly_faster(step_ms: dict[int, float], best: int) -> None:
    assert choose_fastest(step_ms) == best


def test_halves_are_timed_until_one_is_slower(
    request_of: RunRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    made_up(monkeypatch, {8: 1.0, 4: 0.6, 2: 0.5, 1: 0.9})
    assert list(time_threads(request_of, CPU, 8)) == [(8, 1.0), (4, 0.6), (2, 0.5), (1, 0.9)]
    made_up(monkeypatch, {8: 1.0, 4: 2.0})
    assert list(time_threads(request_of, CPU, 8)) == [(8, 1.0), (4, 2.0)]
    made_up(monkeypatch, {6: 1.0, 3: 1.0, 1: 1.0})
    assert [number for number, _ in time_threads(request_of, CPU, 6)] == [6, 3, 1]
    assert torch.get_num_threads() == before


def test_teachers_answer_after_a_step_on_all_cores_and_beside_it_on_fewer(
    request_of: RunRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(monkeypatch, {4: 1.0, 2: 1.5, 1: 1.9}, answer=0.8)
    refs = (Path("one"), Path("two"))
    taught = replace(
        request_of, recipe=change_recipe(request_of.recipe, {"method.name": "elodi"}, ""), refs=refs
    )
    # Three teachers: the old model and two references, 2.4 s a batch.
    assert dict(time_threads(taught, CPU, 4)) == pytest.approx({4: 3.4, 2: 2.4, 1: 2.4})
    cached = replace(taught, recipe=change_recipe(taught.recipe, {"runtime.cache_teachers": True}, ""))
    assert dict(time_threads(cached, CPU, 4)) == {4: 1.0, 2: 1.5}


@needs_two_cores
def test_a_run_is_timed_once_and_its_recipe_says_what_was_found(
    nobody_says: pytest.MonkeyPatch, run: Train, request_of: RunRequest
) -> None:
    result, log = run(request_of.recipe)
    (kept,) = read_kept_threads()
    assert set(kept.step_ms) <= {usable_cores() // 2**i for i in range(8)}
    assert min(kept.step_ms.values()) > 0
    assert kept.threads == choose_fastest(kept.step_ms)
    written = load_recipe(str(result.run.recipe))
    assert written == change_recipe(request_of.recipe, {"runtime.threads": kept.threads}, "")
    (note,) = (note for note in log.notes if note.startswith("threads: "))
    assert note.startswith(f"threads: {kept.threads}; milliseconds of a step with ")
    assert torch.get_num_threads() == 1  # as before the run

    nobody_says.setattr(torch_settings, "time_threads", lambda *_: pytest.fail("timed again"))
    again, _ = choose_threads(request_of, CPU)
    assert again.recipe == written


@needs_two_cores
def test_where_something_else_computes_what_is_found_is_for_this_run_alone(
    nobody_says: pytest.MonkeyPatch, request_of: RunRequest
) -> None:
    made_up(nobody_says, dict.fromkeys(range(1, usable_cores()), 2.0) | {usable_cores(): 1.0})
    quiet, _ = choose_threads(request_of, CPU)
    assert quiet.recipe.runtime.threads == usable_cores()
    path = threads_file()
    assert path is not None
    before = path.read_bytes()

    nobody_says.setattr(os, "getloadavg", lambda: (usable_cores() * 0.5, 0.0, 0.0))
    made_up(nobody_says, dict.fromkeys(range(1, usable_cores()), 2.0) | {usable_cores(): 9.0})
    busy, _ = choose_threads(request_of, CPU)
    assert 1 <= busy.recipe.runtime.threads < usable_cores()
    assert path.read_bytes() == before
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    "said", ["runtime.threads=1", "runtime.tune=false", "environment", "torchrun", "GPU"]
)
def test_nothing_is_timed_where_somebody_has_said_how_many(
    said: str, nobody_says: pytest.MonkeyPatch, request_of: RunRequest
) -> None:
    nobody_says.setattr(torch_settings, "time_threads", lambda *_: pytest.fail("timed"))
    if said == "environment":
        nobody_says.setenv("OMP_NUM_THREADS", "1")
    if said == "torchrun":
        nobody_says.setenv("WORLD_SIZE", "2")
    recipe = (
        change_recipe(request_of.recipe, dict([said.split("=")]), "") if "=" in said else request_of.recipe
    )
    asked = replace(request_of, recipe=recipe)
    device = torch.device("cuda") if said == "GPU" else CPU
    assert choose_threads(asked, device) == (asked, [])


def test_what_is_kept_is_of_this_machine_one_for_each_model_and_a_damaged_file_is_none(
    nobody_says: pytest.MonkeyPatch,
) -> None:
    def found(machine: str, model: str, number: int) -> KeptThreads:
        return KeptThreads(machine=machine, model=model, name=model, threads=number, step_ms={number: 1.0})

    assert read_kept_threads() == []
    here = machine_key()
    for each in (found(here, "a", 1), found("other", "a", 8), found(here, "b", 2), found(here, "a", 4)):
        keep_threads(each)
    assert [(kept.model, kept.threads) for kept in read_kept_threads()] == [("b", 2), ("a", 4)]
    path = threads_file()
    assert path is not None
    path.write_text("{}")
    assert read_kept_threads() == []
    nobody_says.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    keep_threads(found(here, "a", 1))  # a cache that cannot be written is none
    assert read_kept_threads() == []


def test_a_user_without_a_home_folder_keeps_nothing(nobody_says: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    nobody_says.delenv("XDG_CACHE_HOME")
    nobody_says.setattr(Path, "home", nowhere)
    keep_threads(KeptThreads(machine=machine_key(), model="a", name="a", threads=1, step_ms={1: 1.0}))
    assert read_kept_threads() == []


def test_no_more_threads_are_taken_than_there_are_cores(
    nobody_says: pytest.MonkeyPatch, request_of: RunRequest
) -> None:
    many = replace(request_of, recipe=change_recipe(request_of.recipe, {"runtime.threads": 512}, ""))
    cores = usable_cores()
    assert choose_threads(many, CPU) == (
        many,
        [f"warning: runtime.threads 512: there are cores for {cores}, which are taken"],
    )
    assert torch.get_num_threads() == cores
    torch.set_num_threads(1)
