"""`bench kernel`."""

from __future__ import annotations

import pytest
import torch
from typer.testing import CliRunner

from mptctl.bench.loss_timing import eager_loss, least_bytes
from mptctl.cli.app import app
from mptctl.errors import UsageError


def test_bytes_that_must_be_moved() -> None:
    # Two rows of 6 classes, 3 old, 4 bytes each: 6 + 6 + 3 read, 6 written, a label of 8; and the loss.
    assert least_bytes(2, 6, 3, 4) == 2 * (21 * 4 + 8) + 4


def test_what_is_timed_is_the_objective_that_the_kernel_computes() -> None:
    from mptctl.methods.table import build_method

    torch.manual_seed(0)
    logits, target = torch.randn(5, 8, dtype=torch.float64), torch.randint(0, 8, (5,))
    old, ref = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64)
    ours = build_method("mpt-kl", num_old=4, k=4.0)(logits, target, old_logits=old, ref_logits=ref)
    assert float(eager_loss(logits, target, old, ref)) == pytest.approx(float(ours["loss"]), rel=1e-9)


def test_without_a_gpu_nothing_is_timed() -> None:
    run = CliRunner().invoke(app, ["bench", "kernel", "--device", "cpu"])
    assert isinstance(run.exception, UsageError)
    assert str(run.exception).startswith("bench kernel: cpu is no GPU; ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rows", "128,many"], "--rows: 'many' is not a number of at least 2"),
        (["--classes", "1"], "--classes: '1' is not a number of at least 2"),
        (["--dtypes", "float8"], "--dtypes float8: unknown; did you mean float32?"),
    ],
)
def test_sizes_that_cannot_be(flags: list[str], message: str) -> None:
    run = CliRunner().invoke(app, ["bench", "kernel", *flags])
    assert isinstance(run.exception, UsageError)
    assert message in str(run.exception)
