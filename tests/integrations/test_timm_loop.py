"""The example of a loop of one's own: with a network of torch, and with one of timm where it is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from torch import nn

FILE = Path(__file__).parent.parent.parent / "examples" / "timm_loop.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("timm_loop", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def small(classes: int) -> nn.Module:
    layers = nn.Conv2d(1, 16, 4, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(1024, classes)
    return nn.Sequential(*layers)


def test_the_loop_learns_and_counts(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    monitor = example.main(small, epochs=2)
    assert len(capsys.readouterr().out.splitlines()) == len(monitor.history) == 2
    last = monitor.history[-1]
    assert (last.n, last.old.classes) == (450, 5)
    assert last.new.er_all < 0.1
    assert last.nfr < 0.1


def test_the_loop_with_timm(example: ModuleType) -> None:
    pytest.importorskip("timm", reason="timm is not installed (make test-integrations)")
    assert len(example.main(epochs=1).history) == 1
