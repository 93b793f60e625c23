"""The kernel bench: what must be moved, by hand; and the verb without a GPU, where it counts in the machine code."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from mptctl.bench.kernel_bounds import bound_row, count_kinds
from mptctl.bench.loss_timing import eager_loss, least_bytes
from mptctl.cli.app import app
from mptctl.errors import UsageError
from tests.versions import counted_with


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


def test_kinds_of_instructions_by_hand() -> None:
    kinds = count_kinds(
        Counter({"FFMA.FTZ": 3, "FMUL": 2, "MUFU.EX2": 4, "LDG.E.128": 1, "FSETP.GT.AND": 1, "NOP": 2})
    )
    assert kinds == {
        "arithmetic": 5, "compare and select": 1, "special": 4, "convert and bits": 0, "integer": 0, "exchange": 0,
        "load and store": 1, "other": 2,
    }  # fmt: skip


# Triton 3.6 packs no additions for sm_100 either.
@counted_with("triton")
@pytest.mark.parametrize(("arch", "packs"), [("sm_90", False), ("sm_100", True)])
def test_two_additions_in_one_instruction_are_twice_the_work_of_their_unit(arch: str, packs: bool) -> None:
    pytest.importorskip("triton")
    row = bound_row(4096, 1000, "float32", arch)
    assert row.issue_us is not None
    assert row.fma_us is not None
    assert row.instructions is not None
    # Arithmetic has as many lanes as all instructions together, on both GPUs.
    issued = row.issue_us * row.instructions["arithmetic"] / sum(row.instructions.values())
    assert row.fma_us >= 0.99 * issued
    assert (row.fma_us > 1.03 * issued) == packs


def test_the_bounds_are_those_of_the_definitions() -> None:
    pytest.importorskip("triton")
    row = bound_row(4096, 100, "float32", "sm_90")

    assert (row.name, row.arch, row.distance, row.us, row.spills) == ("ours", "sm_90", "kl", None, False)
    assert row.bytes == least_bytes(4096, 100, 50, 4)
    assert row.floor_us == pytest.approx(1e6 * row.bytes / 4.31e12, abs=0.01)
    # A thread's instructions a logit, over 32 lanes of 4 schedulers of 132 multiprocessors at 1.98 GHz.
    a_logit = sum((row.instructions or {}).values())
    assert row.issue_us == pytest.approx(1e6 * a_logit * 4096 * 100 / (32 * 4 * 132 * 1.98e9), rel=0.02)
    assert row.sfu_us == pytest.approx(
        1e6 * (row.instructions or {})["special"] * 4096 * 100 / (16 * 132 * 1.98e9), rel=0.02
    )
    times = {
        "memory": row.floor_us,
        "issue": row.issue_us,
        "alu": row.alu_us,
        "fma": row.fma_us,
        "sfu": row.sfu_us,
    }
    assert row.binds == max(times, key=lambda name: times[name] or 0.0)


def test_the_verb_without_a_gpu() -> None:
    pytest.importorskip("triton")
    flags = [
        "--rows",
        "4,8",
        "--classes",
        "6",
        "--dtypes",
        "float32",
        "--archs",
        "sm_80,sm_90",
        "--device",
        "cpu",
    ]
    run = CliRunner().invoke(app, ["bench", "kernel", "--json", *flags])

    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert (found["bench"], found["device"]) == ("kernel", "cpu")
    assert found["two_launches_us"] is None
    assert found["copy_gb_per_s"] is None
    assert [(row["name"], row["n"], row["arch"]) for row in found["rows"]] == [
        ("ours", 4, "sm_80"), ("ours", 4, "sm_90"), ("ours", 8, "sm_80"), ("ours", 8, "sm_90")
    ]  # fmt: skip
    for row in found["rows"]:
        assert (row["c"], row["dtype"], row["us"], row["call_us"]) == (6, "float32", None, None)
        assert row["bytes"] == least_bytes(row["n"], 6, 3, 4)
        assert row["rows_per_program"] >= 1
        assert row["num_warps"] >= 1
    assert "no GPU" in run.stderr

    table = CliRunner().invoke(app, ["bench", "kernel", *flags])
    assert table.exit_code == 0, table.output
    assert "issue" in table.stdout


def test_without_the_disassembler_one_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine_code = pytest.importorskip("mpt_kernels.machine_code")
    monkeypatch.setattr(machine_code, "DISASSEMBLER", tmp_path / "cuobjdump")
    flags = ["--rows", "4", "--classes", "6", "--dtypes", "float32", "--archs", "sm_90", "--device", "cpu"]
    run = CliRunner().invoke(app, ["bench", "kernel", *flags])

    assert run.exit_code == 0, run.output
    (line,) = [line for line in run.stderr.splitlines() if "not counted" in line]
    assert "cuobjdump" in line
    assert "install triton" in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rows", "128,many"], "--rows: 'many' is not a number of at least 2"),
        (["--classes", "1"], "--classes: '1' is not a number of at least 2"),
        (["--dtypes", "float8"], "--dtypes float8: unknown; did you mean float32?"),
        (["--archs", "sm_75"], "--archs sm_75: unknown; did you mean sm_"),
    ],
)
def test_sizes_that_cannot_be(flags: list[str], message: str) -> None:
    run = CliRunner().invoke(app, ["bench", "kernel", *flags])
    assert isinstance(run.exception, UsageError)
    assert message in str(run.exception)
