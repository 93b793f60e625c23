"""One set of tests for every backend: the reference here, Triton under its interpreter or on a GPU.

`TRITON_INTERPRET=1 pytest tests/kernels` runs the backend-neutral tests through Triton's interpreter
(test_interpreter.py does so in a process of its own, because Triton reads the variable when it is imported);
tests/gpu runs them on a GPU.
"""

import os
from collections.abc import Iterator
from functools import partial

import pytest
import torch

from mpt_kernels import mpt_loss
from tests.kernels.cases import Loss


@pytest.fixture(scope="session")
def device() -> str:
    return "cpu"


@pytest.fixture(scope="session")
def backend() -> str:
    return "triton" if os.environ.get("TRITON_INTERPRET") == "1" else "reference"


# The reference has one path, so only where Triton runs is there a second one to go.
TRITON_RUNS = os.environ.get("TRITON_INTERPRET") == "1" or torch.cuda.is_available()


@pytest.fixture(
    scope="session",
    params=[False, True] if TRITON_RUNS else [False],
    ids=["narrow", "wide"] if TRITON_RUNS else ["reference"],
)
def wide(request: pytest.FixtureRequest) -> bool:
    """True for the second of Triton's two row kernels, that of wide rows."""
    return bool(request.param)


@pytest.fixture(scope="session")
def loss(wide: bool, backend: str) -> Iterator[Loss]:
    """`mpt_loss` by the backend under test; Triton once by each of its two row kernels."""
    if backend == "reference":
        if wide:
            pytest.skip("the reference has one path")
        yield partial(mpt_loss, backend="reference")
        return
    from mpt_kernels import triton_backend

    narrow = triton_backend.NARROW
    triton_backend.NARROW = 0 if wide else narrow
    yield partial(mpt_loss, backend="triton")
    triton_backend.NARROW = narrow


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
