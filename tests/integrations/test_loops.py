"""The examples of other people's loops learn, with the real libraries, and end in a comparison."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from tests.common import ROOT

FOLDER = ROOT / "examples" / "loops"
# Each with the package that it needs, and how many epochs show that it learns.
LOOPS = {"plain": ("timm", 2), "hugging_face": ("transformers", 10), "lightning_module": ("lightning", 10)}


@pytest.mark.filterwarnings("default")  # warnings of other people's libraries are no failures of ours
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_learns_and_counts_its_flips(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, epochs = LOOPS[name]
    pytest.importorskip(package, reason=f"{package} is not installed (make test-integrations)")
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) <= 40
    torch.manual_seed(0)
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.chdir(tmp_path)
    report = load(name).main(epochs=epochs)
    assert (report.n, report.old.classes) == (450, 5)
    assert report.new.er_all < 0.3
    assert report.nfr < 0.2


def small(classes: int) -> nn.Module:
    layers = nn.Conv2d(1, 16, 4, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(1024, classes)
    return nn.Sequential(*layers)


@pytest.mark.parametrize("network", ["torch", "timm"])
def test_a_loop_of_ones_own_learns_and_counts(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    if network == "timm":
        pytest.importorskip("timm", reason="timm is not installed (make test-integrations)")
        assert len(load("../timm_loop").main(epochs=1).history) == 1
        return
    monitor = load("../timm_loop").main(small, epochs=2)
    assert len(capsys.readouterr().out.splitlines()) == len(monitor.history) == 2
    last = monitor.history[-1]
    assert (last.n, last.old.classes) == (450, 5)
    assert (last.new.er_all < 0.1, last.nfr < 0.1) == (True, True)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(name).name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_loop_is_tried() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*LOOPS, "digits"}
