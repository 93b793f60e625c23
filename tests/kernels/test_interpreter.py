"""Runs the backend-neutral tests once more through Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("this is that run", allow_module_level=True)


TESTS = [
    f"test_{name}.py" for name in ("accuracy", "golden", "pieces", "compiled", "edges", "sums", "mixture")
]


def test_the_triton_kernels_pass() -> None:
    interpret(*TESTS)


@pytest.mark.nightly
def test_the_triton_kernels_pass_beside_one_case_a_regime() -> None:
    interpret("-m", "nightly", *TESTS)


def interpret(*words: str) -> None:
    """Run pytest where Triton interprets, in a process of its own: Triton decides so when it is imported."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *words]
    # The interpreter computes rows past the end too and warns of what comes out; nobody reads them.
    command += ["-W", "ignore::RuntimeWarning:triton.runtime.interpreter"]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    # Something ran: the row of dots, once without and once with the wide kernel.
    assert "..." in run.stdout
