"""The loss and gradient of the published code, in double precision, for every method that it runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.kernels.cases import Loss, beside

GOLDEN = Path(__file__).parents[1] / "golden"
# What each method is, in settings. Lambda is 1.0 for KL and 0.4 for logit matching.
METHODS: dict[str, dict[str, Any]] = {
    "no-treatment": {"k": 0.0, "distance": None},
    "pct-naive": {"k": 0.0, "distance": None, "ce_focal_weight": 1.0},
    "pct-kl": {"k": 0.0, "distance": "kl", "lam_ref": 0.0},
    "pct-lm": {"k": 0.0, "distance": "lm", "lam": 0.4, "lam_ref": 0.0},
    "mpt-kl": {"distance": "kl"},
    "mpt-lm": {"distance": "lm", "lam": 0.4},
    "mpt-nodistill": {"distance": None},
    "mpt-kl-nobias": {"k": 0.0, "distance": "kl"},
    "mpt-lm-nobias": {"k": 0.0, "distance": "lm", "lam": 0.4},
}


@pytest.fixture(scope="module", params=["c100_k4.npz", "c1000_k1p5.npz"])
def golden(request: pytest.FixtureRequest) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(GOLDEN / request.param) as data:
        return {name: data[name] for name in data.files}


# The others differ from this one in settings that other tests vary anyway: k, the distance, and which teachers count.
REGIMES = ("mpt-kl",)


@pytest.mark.parametrize("method", [name if name in REGIMES else beside(name) for name in METHODS])
def test_loss_and_gradient_of_the_published_code(
    loss: Loss, golden: dict[str, np.ndarray[Any, Any]], method: str, device: str, backend: str
) -> None:
    """In single precision; to nine digits in double, for every method: tests/methods/test_table.py."""
    if backend == "triton" and device == "cpu" and len(golden["target"]) > 16:
        pytest.skip("the interpreter takes a row at a time; the file of fewer rows covers both kernels")
    logits, old, ref = (
        torch.from_numpy(golden[name]).to(device, torch.float32)
        for name in ("logits", "old_logits", "ref_logits")
    )
    target, settings = (
        torch.from_numpy(golden["target"]).to(device),
        {"k": float(golden["k"])} | METHODS[method],
    )
    out = loss(logits, target, old, ref, num_old=int(golden["num_old"]), **settings)
    grad = golden[f"grad/{method}"]
    assert float(out.loss) == pytest.approx(float(golden[f"loss/{method}"]), rel=1e-5)
    assert np.abs(out.grad.cpu().numpy() - grad).max() <= 1e-5 * np.abs(grad).max()
