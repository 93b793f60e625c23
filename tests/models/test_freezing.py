"""Weights and statistics that stay, blocks that are left out, and what is refused."""

from __future__ import annotations

import pytest
import torch

from mptctl.errors import UsageError
from mptctl.models.networks import build_model, set_training_mode
from mptctl.recipe import ModelRecipe


def recipe(**keys: object) -> ModelRecipe:
    return ModelRecipe.model_validate({"arch": "digits-net", **keys})


def trained_names(**keys: object) -> set[str]:
    model = build_model(recipe(**keys), 3, 8)
    return {name for name, weight in model.named_parameters() if weight.requires_grad}


def test_a_pattern_names_a_module_a_weight_or_many() -> None:
    everything = trained_names()
    stem = {name for name in everything if name.startswith("stem.")}
    assert len(stem) == 3
    assert trained_names(freeze=["stem"]) == everything - stem
    assert trained_names(freeze=["fc.bias"]) == everything - {"fc.bias"}
    convolutions = {name for name in everything if ".conv1." in name}
    assert trained_names(freeze=["stages.?.conv1.*", "stem"]) == everything - stem - convolutions
    assert trained_names(freeze=["norm-statistics"]) == everything


@pytest.mark.parametrize(("patterns", "moves"), [(["stem"], "stages"), (["norm-statistics"], "nothing")])
def test_frozen_batch_norms_keep_their_statistics(patterns: list[str], moves: str) -> None:
    keys = recipe(freeze=patterns)
    model = build_model(keys, 3, 8)
    set_training_mode(model, keys)
    before = {name: tensor.clone() for name, tensor in model.named_buffers()}
    model(torch.randn(4, 3, 8, 8))
    moved = {
        name.partition(".")[0] for name, now in model.named_buffers() if not torch.equal(now, before[name])
    }
    assert moved == ({moves} - {"nothing"})
    assert model.training


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"freeze": ["stam"]},
            "model.freeze stam: no weight or module of digits-net is so called; did you mean stem",
        ),
        ({"freeze": ["*"]}, "model.freeze: leaves nothing of digits-net to train"),
        ({"arch": "vit_b_32", "freeze": ["norm-statistics"]}, "vit_b_32 has no batch norms"),
        ({"drop_path": 0.1}, "model.drop_path: digits-net leaves out no blocks"),
        ({"arch": "resnet18", "drop_path": 0.1}, "model.drop_path: resnet18 leaves out no blocks"),
    ],
)
def test_what_matches_nothing_is_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message), torch.device("meta"):
        build_model(recipe(**keys), 3, 32)


def test_the_rate_of_drop_path_rises_from_the_first_block_to_the_last() -> None:
    with torch.device("meta"):
        own, ours = (
            build_model(recipe(arch="convnext_tiny", drop_path=rate), 3, 32) for rate in (None, 0.34)
        )
    own_rates, our_rates = (
        [module.p for module in model.modules() if type(module).__name__ == "StochasticDepth"]
        for model in (own, ours)
    )
    assert own_rates[-1] == pytest.approx(0.1)
    assert our_rates == pytest.approx([rate * 3.4 for rate in own_rates])  # type: ignore[operator]
