"""The loss and gradient of the published code, in double precision, for every method that it runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mpt_kernels import mpt_loss

GOLDEN = Path(__file__).parents[1] / "golden"
# What each method is, in settings. Lambda is 1.0 for KL and 0.4 for logit matching.
METHODS: dict[str, dict[str, Any]] = {
    "no-treatment": {"k": 0.0, "distance": None},
    "pct-naive": {"k": 0.0, "distance": None, "ce_focus": 1.0},
    "pct-kl": {"k": 0.0, "distance": "kl", "lam_ref": 0.0},
    "pct-lm": {"k": 0.0, "distance": "lm", "lam": 0.4, "lam_ref": 0.0},
    "mpt-kl": {"distance": "kl"},
    "mpt-lm": {"distance": "lm", "lam": 0.4},
    "mpt-nodistill": {"distance": None},
    "mpt-kl-nobias": {"k": 0.0, "distance": "kl"},
    "mpt-lm-nobias": {"k": 0.0, "distance": "lm", "lam": 0.4},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("file", ["c100_k4.npz", "c1000_k1p5.npz"])
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_reference_gives_the_published_loss_and_gradient(
    method: str, file: str, dtype: torch.dtype, rtol: float
) -> None:
    with np.load(GOLDEN / file) as data:
        golden = {name: data[name] for name in data.files}
    logits, old, ref = (
        torch.from_numpy(golden[name]).to(dtype) for name in ("logits", "old_logits", "ref_logits")
    )
    settings = {"k": float(golden["k"])} | METHODS[method]

    out = mpt_loss(
        logits, torch.from_numpy(golden["target"]), old, ref, num_old=int(golden["num_old"]), **settings
    )

    loss, grad = float(golden[f"loss/{method}"]), golden[f"grad/{method}"]
    assert float(out.loss) == pytest.approx(loss, rel=rtol)
    assert np.abs(out.grad.numpy() - grad).max() <= rtol * np.abs(grad).max()
