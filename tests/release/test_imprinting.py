"""Rows by imprinting, and the constant that holds them back, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mptctl.models.heads import add_rows
from mptctl.models.networks import build_model
from mptctl.recipe import ModelRecipe
from mptctl.release.adding import imprint, smallest_constant


def test_a_row_points_where_the_pictures_do_and_is_as_long_as_old_rows_are() -> None:
    """Old rows of length 1 and 3: 2 on average. Of length 1 the features are (1, 0), (0, 1): diagonal."""
    old = torch.tensor([[1.0, 0.0], [0.0, -3.0]], dtype=torch.float64)
    features = [torch.tensor([[4.0, 0.0], [0.0, 0.5]]).double(), torch.tensor([[-6.0, 8.0]]).double()]
    want = torch.tensor([[2**0.5, 2**0.5], [-1.2, 1.6]], dtype=torch.float64)
    torch.testing.assert_close(imprint(features, old), want, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("lead", "limit", "lost"),
    [
        ([-1.0, 2.0, 0.5, -3.0], 0.0, 0),
        ([-1.0, 2.0, 0.5, -3.0], 0.25, 1),
        ([-1.0, 2.0, 0.5, -3.0], 0.49, 1),
        ([-1.0, 2.0, 0.5, -3.0], 0.5, 2),
        ([-1.0, -2.0], 0.0, 0),
        ([1.0, 1.0, 1.0, 0.0], 0.25, 0),  # of three alike none may be lost, or all three are
    ],
)
def test_the_constant_is_the_smallest_that_loses_few_enough(
    lead: list[float], limit: float, lost: int
) -> None:
    leads = np.array(lead)
    constant = smallest_constant(leads, limit)
    assert int((leads > constant).sum()) == lost <= limit * len(leads)
    below = constant - 4e-4  # any smaller one loses more than may be lost
    assert int((leads > below).sum()) > limit * len(leads)


@pytest.mark.parametrize("head", ["linear", "cosine", "linear-margin"])
def test_added_classes_leave_the_old_logits_as_they_are(head: str) -> None:
    keys = ModelRecipe.model_validate({"arch": "digits-net", "head": head})
    torch.manual_seed(2)
    model = build_model(keys, 3, 8).eval()
    x = torch.randn(4, 3, 8, 8)
    before = model(x)
    rows = torch.randn(2, 64)
    add_rows(model, "digits-net", rows, 1.5)
    after = model(x)
    assert after.shape == (4, 5)
    torch.testing.assert_close(after[:, :3], before)
    wider = build_model(keys, 5, 8).eval()
    wider.load_state_dict(model.state_dict())
    torch.testing.assert_close(wider(x), after)
    features: list[torch.Tensor] = []
    model.get_submodule("fc").register_forward_pre_hook(lambda _, args: features.append(args[0]))
    model(x)
    f = features[0]
    products = {
        "linear": f @ rows.T,
        "linear-margin": 5 * f @ rows.T,
        "cosine": 30 * torch.nn.functional.cosine_similarity(f[:, None], rows[None], dim=2),
    }
    torch.testing.assert_close(after[:, 3:], products[head] - 1.5, atol=1e-4, rtol=1e-5)
