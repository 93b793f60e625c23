"""The kernel bench: what must be moved, by hand; and the verb on a CPU, where it says what it cannot measure."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from mptctl.bench.loss_timing import eager_loss, least_bytes, sizes_for
from mptctl.cli.app import app
from mptctl.errors import UsageError


def test_bytes_that_must_be_moved() -> None:
    # Two rows of 6 classes, 3 old, 4 bytes each: 6 + 6 + 3 read, 6 written, a label of 8; and the loss.
    assert least_bytes(2, 6, 3, 4) == 2 * (21 * 4 + 8) + 4


def test_a_cpu_leaves_out_what_takes_minutes() -> None:
    sizes = sizes_for(torch.device("cpu"), (128, 4096), (100, 1000, 21_841))
    assert sizes == [(128, 100), (128, 1000), (128, 21_841), (4096, 100), (4096, 1000)]
    assert (4096, 21_841) in sizes_for(torch.device("cuda"), (128, 4096), (100, 1000, 21_841))


def test_what_is_timed_is_the_objective_that_the_kernel_computes() -> None:
    from mptctl.methods.table import build_method

    torch.manual_seed(0)
    logits, target = torch.randn(5, 8, dtype=torch.float64), torch.randint(0, 8, (5,))
    old, ref = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64)
    ours = build_method("mpt-kl", num_old=4, k=4.0)(logits, target, old_logits=old, ref_logits=ref)
    assert float(eager_loss(logits, target, old, ref)) == pytest.approx(float(ours["loss"]), rel=1e-9)


@pytest.mark.slow
def test_the_verb_without_a_gpu() -> None:
    flags = ["--rows", "4", "--classes", "6", "--dtypes", "float32", "--repeats", "2", "--device", "cpu"]
    run = CliRunner().invoke(app, ["bench", "kernel", "--json", *flags])

    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert found["bench"] == "kernel"
    assert found["device"] == "cpu"
    assert found["two_launches_us"] is None
    assert [row["name"] for row in found["rows"]] == ["eager", "compile"]
    for row in found["rows"]:
        assert (row["n"], row["c"], row["dtype"]) == (4, 6, "float32")
        assert row["bytes"] == least_bytes(4, 6, 3, 4)
        assert row["us"] > 0
        assert row["floor_us"] > 0
    assert "no GPU" in run.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rows", "128,many"], "--rows: 'many' is not a number of at least 2"),
        (["--classes", "1"], "--classes: '1' is not a number of at least 2"),
        (["--dtypes", "float8"], "--dtypes: 'float8' is unknown; choose from float32, bfloat16"),
    ],
)
def test_sizes_that_cannot_be(flags: list[str], message: str) -> None:
    run = CliRunner().invoke(app, ["bench", "kernel", *flags])
    assert isinstance(run.exception, UsageError)
    assert message in str(run.exception)
