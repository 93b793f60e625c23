"""The doctor: everything is looked at, and what is not usable comes with advice."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from mptctl.machine.doctor import (
    MIN_FREE,
    Check,
    DoctorReport,
    conclude,
    examine,
)
from mptctl.report.documents.lists import doctor_document
from mptctl.report.media.terminal import print_document
from tests.common import CommandLine


def test_everything_is_examined_and_advice_goes_with_every_fault(tmp_path: Path) -> None:
    checks = {check.name: check for check in examine(tmp_path / "not" / "there" / "yet")}
    assert set(checks) == {
        "Python", "comparisons", "torch", "torchvision", "JPEG", "GPU", "Triton", "DALI", "Ray Tune", "cores", "storage"
    }  # fmt: skip
    assert checks["torch"].found == torch.__version__
    assert (checks["GPU"].state == "ok") == torch.cuda.is_available()
    assert all(check.advice for check in checks.values() if check.state != "ok")


def test_storage_is_judged_by_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(free: int) -> Check:
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
        return examine(tmp_path)[-1]

    enough, short = judge(MIN_FREE), judge(MIN_FREE - 1)
    assert (enough.state, enough.found, enough.advice) == ("ok", f"1 GB free at {tmp_path}", None)
    assert (short.state, short.found, short.advice) == ("unusable", "1.0 GB free", "make room")


def test_no_line_is_longer_than_a_pipe_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    advice = "pip install nvidia-dali-cuda130 (Linux x86-64); image folders are read by threads instead"
    checks = [
        Check(name="GPU", state="missing", found="none"),
        Check(name="DALI", state="missing", found="none", advice=advice),
        Check(name="cores", state="ok", found="2"),
    ]
    console = Console(file=StringIO())
    report = DoctorReport(checks=checks, conclusion=conclude(checks))
    print_document(doctor_document(report), console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()).endswith(conclude(checks))


def test_json_is_one_object(mptctl: CommandLine) -> None:
    out = mptctl("doctor", "--json")
    assert out.returncode == 0, out.stderr
    assert Check.model_validate(json.loads(out.stdout)["checks"][0]).name == "Python"
