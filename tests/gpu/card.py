"""The device of tests that need a GPU; in a rehearsal of the check the CPU, so that all else can be tried."""

from __future__ import annotations

import os

import pytest
import torch

# Set by `check.py --rehearse`: what can do without the card is run, and what cannot is named.
REHEARSED = os.environ.get("MPTCTL_REHEARSE") == "1"
NEEDS_CARD = "needs the card"
DEVICE = torch.device("cpu" if REHEARSED else "cuda:0")

needs_card = pytest.mark.skipif(REHEARSED, reason=NEEDS_CARD)


def skip_without_card() -> None:
    """Leave a file of tests out where there is neither a GPU nor a rehearsal."""
    if not REHEARSED and not torch.cuda.is_available():
        pytest.skip("no CUDA device", allow_module_level=True)
