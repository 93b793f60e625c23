"""Settings of torch for a run, and that they are as before afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.machine.device import choose_device
from mptctl.training.assemble import make_loaders
from mptctl.training.distributed import ProcessGroup
from mptctl.training.request import RunRequest
from mptctl.training.torch_settings import torch_settings
from tests.common import CPU, short_recipe


def test_threads_are_the_recipes_and_come_back() -> None:
    before = torch.get_num_threads()
    with torch_settings(short_recipe("runtime.threads=2"), torch.device("cpu")):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == before


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
    with pytest.raises(UsageError, match="is not there"):
        choose_device("cuda:99")
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


def test_settings_of_determinism_are_as_before_a_run() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch_settings(short_recipe(), CPU):
            pass
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
