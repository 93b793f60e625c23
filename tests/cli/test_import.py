"""`mptctl import` as it is typed: what it says of a model from elsewhere, and what it refuses in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torchvision

from mptctl.data.split import make_split
from mptctl.models.checkpoint import load_checkpoint
from tests.common import CommandLine


@pytest.fixture
def foreign(tmp_path: Path) -> tuple[Path, Path]:
    """The files of somebody without mptctl: torchvision's state dict of five classes, and their names."""
    torch.manual_seed(3)
    torch.save(torchvision.models.resnet18(num_classes=5).state_dict(), tmp_path / "production.pt")
    (tmp_path / "classes.txt").write_text("4\n3\n2\n1\n0\n")
    return tmp_path / "production.pt", tmp_path / "classes.txt"


def test_a_module_of_lightning_is_taken_with_its_prefix(
    mptctl: CommandLine, foreign: tuple[Path, Path], tmp_path: Path
) -> None:
    weights, classes = foreign
    plain = torch.load(weights, weights_only=True)
    content = {"state_dict": {f"model.{key}": tensor for key, tensor in plain.items()}, "epoch": 3}
    torch.save(content, tmp_path / "lightning.ckpt")
    make_split("digits", run_root=tmp_path / "runs")
    flags = ("--arch", "resnet18", "--class-names", classes, "--set", "data.image_size=32", "--name", "mine")
    out = mptctl("import", tmp_path / "lightning.ckpt", *flags, "--run-root", tmp_path / "runs")
    assert out.returncode == 0, out.stderr
    taken = load_checkpoint(tmp_path / "runs" / "mine" / "best.pt").model
    assert torch.equal(taken["conv1.weight"], plain["conv1.weight"])


def test_a_description_is_not_that_of_weights_that_are_not_there(
    mptctl: CommandLine, foreign: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"], "model_type": "bert"}')
    make_split("digits", run_root=tmp_path / "runs")
    words = ("--class-names", foreign[1], "--run-root", tmp_path / "runs")
    for name in ("production.pt", "productoin.pt"):
        out = mptctl("import", tmp_path / name, *words)
        assert (out.returncode, out.stdout) == (2, "")
        assert "nothing says which network these weights are of" in out.stderr
