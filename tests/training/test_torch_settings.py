"""How torch is set up for a run, and that it is as before afterwards."""

from __future__ import annotations

import pytest
import torch

from mptctl.training.torch_settings import torch_settings
from tests.common import short_recipe


def test_threads_are_the_recipes_and_come_back() -> None:
    before = torch.get_num_threads()
    with torch_settings(short_recipe("runtime.threads=2"), torch.device("cpu")):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the key is for GPUs")
@pytest.mark.parametrize("deterministic", [False, True])
def test_deterministic_allows_only_algorithms_that_repeat_themselves(deterministic: bool) -> None:
    recipe = short_recipe(f"runtime.deterministic={str(deterministic).lower()}")
    with torch_settings(recipe, torch.device("cuda", 0)):
        assert torch.are_deterministic_algorithms_enabled() == deterministic
        assert torch.backends.cudnn.benchmark != deterministic
    assert not torch.are_deterministic_algorithms_enabled()
