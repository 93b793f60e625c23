"""Row 35: an export that does not say what its checkpoint says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import mptctl.release.exporting as exporting
from mptctl.models.checkpoint import load_model
from mptctl.models.export_meta import sidecar
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

    monkeypatch.setattr(exporting, "load_model", damaged)
    file = tmp_path / f"x.{format_}"
    file.write_bytes(b"what was there")
    out = mptctl("export", "new", "--format", format_, "--out", file, "--run-root", runs)
    assert (out.returncode, out.stdout) == (3, "")
    assert "not written: logits differ by up to 0.5 " in out.stderr
    assert file.read_bytes() == b"what was there"
    assert not sidecar(file).exists()
