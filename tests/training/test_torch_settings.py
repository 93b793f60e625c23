"""Settings of torch for a run, the number of its threads, and that they are as before afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.machine.device import choose_device
from mptctl.machine.facts import usable_cores
from mptctl.recipe import change_recipe, load_recipe
from mptctl.training.assemble import make_loaders
from mptctl.training.distributed import ProcessGroup
from mptctl.training.request import RunRequest
from mptctl.training.torch_settings import choose_threads, torch_settings
from tests.common import CPU, Train, short_recipe


@pytest.mark.parametrize("before", [None, ":16:8"])
def test_products_on_a_gpu_can_repeat_themselves_from_the_first_one_on(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch reads this once a process, so it is there before a device is looked for, in runs of any kind."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", before or "")
    if before is None:
        monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    choose_device("cpu")
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == before
    for name in ("cuda:99", "tpu", "meta"):
        with pytest.raises(UsageError, match=r"runtime\.device"):
            choose_device(name)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == (before or ":4096:8")


@pytest.mark.parametrize(("deterministic", "load"), [("false", 0.3), ("true", 0.0)])
def test_a_deterministic_run_decodes_nothing_in_the_hardware(
    deterministic: str, load: float, digits: Split, tmp_path: Path
) -> None:
    recipe = short_recipe("data.hw_decoder_load=0.3", f"runtime.deterministic={deterministic}")
    request = RunRequest(recipe, digits, tmp_path / "run")
    loaders = make_loaders(request, CPU, ProcessGroup())
    for loader in loaders:
        assert loader is not None
        assert loader.plan.data.hw_decoder_load == load
        loader.close()


def test_threads_are_the_recipes_and_they_and_determinism_are_as_before_a_run() -> None:
    before = torch.get_num_threads()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch_settings(short_recipe("runtime.threads=2"), CPU):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == before
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.fixture
def nobody_says(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nobody has said how many threads; torch has afterwards as many as before."""
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS")
    yield monkeypatch
    torch.set_num_threads(before)


@pytest.fixture
def request_of(digits: Split) -> RunRequest:
    """A run of two steps, whose recipe leaves open how many threads it takes."""
    recipe = short_recipe("optim.max_steps=2", "runtime.threads=0")
    return RunRequest(recipe=recipe, split=digits, folder=digits.run_root / "run")


def with_keys(request: RunRequest, keys: dict[str, object]) -> RunRequest:
    return replace(request, recipe=change_recipe(request.recipe, keys, ""))


@pytest.mark.parametrize(("size", "threads"), [(8, 1), (9, 0), (16, 0), (32, 0)])
def test_tiny_pictures_take_one_thread_and_others_all_cores(
    nobody_says: pytest.MonkeyPatch, request_of: RunRequest, size: int, threads: int
) -> None:
    nobody_says.setattr("mptctl.training.torch_settings.usable_cores", lambda: 3)
    chosen, (note,) = choose_threads(with_keys(request_of, {"data.image_size": size}), CPU)
    expected = threads or 3
    assert chosen.recipe.runtime.threads == torch.get_num_threads() == expected
    assert note == f"threads: {expected} (runtime.threads says otherwise)"


@pytest.mark.usefixtures("nobody_says")
def test_the_recipe_of_a_run_says_how_many_were_taken(run: Train, request_of: RunRequest) -> None:
    result, log = run(request_of.recipe)
    written = load_recipe(str(result.run.recipe))
    assert written == change_recipe(request_of.recipe, {"runtime.threads": 1}, "")
    assert "threads: 1 (runtime.threads says otherwise)" in log.notes


@pytest.mark.parametrize("said", ["recipe", "environment", "GPU"])
def test_nothing_is_chosen_where_somebody_has_said_how_many(
    said: str, nobody_says: pytest.MonkeyPatch, request_of: RunRequest
) -> None:
    if said == "environment":
        nobody_says.setenv("OMP_NUM_THREADS", "1")
    asked = with_keys(request_of, {"runtime.threads": 1}) if said == "recipe" else request_of
    device = torch.device("cuda") if said == "GPU" else CPU
    assert choose_threads(asked, device) == (asked, [])


@pytest.mark.usefixtures("nobody_says")
def test_no_more_threads_are_taken_than_there_are_cores(request_of: RunRequest) -> None:
    many, cores = with_keys(request_of, {"runtime.threads": 512}), usable_cores()
    assert choose_threads(many, CPU) == (
        many,
        [f"warning: runtime.threads 512: there are cores for {cores}, which are taken"],
    )
    assert torch.get_num_threads() == cores
