"""Rows 35 and 65: an export that does not say what its checkpoint says, and programs of torch, which are not read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import mptctl.release.export as export_module
from mptctl.models.checkpoint import load_model
from mptctl.models.export_meta import sidecar_path
from tests.common import CommandLine
from tests.integrations.exports import NEEDS, need


@pytest.mark.parametrize("format_", NEEDS)
def test_row_35_an_export_that_says_something_else_is_not_written(
    format_: str, runs: Path, tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(format_)

    def damaged(
        checkpoint: object,
    ) -> torch.nn.Module:  # as an exporter that loses part of a layer's bias would
        model = load_model(checkpoint)  # type: ignore[arg-type]
        with torch.no_grad():
            model.get_submodule("fc").bias[3] += 0.5
        return model

    monkeypatch.setattr(export_module, "load_model", damaged)
    file = tmp_path / f"x.{format_}"
    file.touch()
    out = mptctl("export", "new", "--format", format_, "--out", file, "--run-root", runs)
    assert (out.returncode, out.stdout) == (3, ""), out.stderr
    assert "not written: logits differ by up to 0.5 " in out.stderr
    assert file.read_bytes() == b""
    assert not sidecar_path(file).exists()


def test_row_65_a_program_of_torch_is_not_read(runs: Path, tmp_path: Path, mptctl: CommandLine) -> None:
    """Torch's own loader of programs runs what is in the file."""
    file = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(2, 2), (torch.zeros(1, 2),)), file)
    out = mptctl("evaluate", file, "new", "--run-root", runs)
    assert (out.returncode, out.stdout, "model.pt2: not a checkpoint" in out.stderr) == (5, "", True)
