"""The doctor: everything is looked at, and what is not usable comes with advice."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from mptctl.machine.doctor import Check, examine
from tests.common import mptctl_process


def test_everything_is_examined_and_advice_goes_with_every_fault(tmp_path: Path) -> None:
    checks = {check.name: check for check in examine(tmp_path / "not" / "there" / "yet")}
    assert set(checks) == {
        "Python", "torch", "torchvision", "GPU", "Triton", "DALI", "Ray Tune", "cores", "storage"
    }  # fmt: skip
    assert checks["torch"].found == torch.__version__
    assert (checks["GPU"].state == "ok") == torch.cuda.is_available()
    assert all(check.advice for check in checks.values() if check.state != "ok")
    assert checks["storage"].state == "ok"


def test_json_is_one_object() -> None:
    out = mptctl_process("doctor", "--json")
    assert out.returncode == 0, out.stderr
    assert Check.model_validate(json.loads(out.stdout)["checks"][0]).name == "Python"
