"""The notebooks of examples/: each runs from its first cell to its last, and is kept without outputs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mptctl.machine.facts import has_package
from tests.common import ROOT, environment, programs

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
MISSING = [name for name in ("nbclient", "nbformat", "ipykernel") if not has_package(name)]
# Seconds that one cell may take, on a machine that does other things as well.
PATIENCE = 300


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(path: Path) -> None:
    cells = [
        cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"
    ]
    assert cells
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed (make test-integrations)")
@pytest.mark.filterwarnings("default")  # of libraries that run the cells
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    # A kernel of this Python, and a program of this checkout, whatever else is installed.
    kernel = tmp_path / "kernels" / "python3"
    kernel.mkdir(parents=True)
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": start, "display_name": "", "language": "python"}))
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{programs(tmp_path / 'bin')}:{os.environ['PATH']}")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    work = tmp_path / "work"
    work.mkdir()
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=PATIENCE, kernel_name="python3", resources={"metadata": {"path": str(work)}}
    )
    client.execute()
    shown = " ".join(text for cell in notebook.cells for text in _texts(cell))
    assert "NFR" in shown
    assert "mptctl: " not in shown, shown  # what an error of the command line begins with
    if path.stem == "verdict":
        assert "at most 3%: fail" in shown
        assert "at most 6%: undecided" in shown
        assert "at most 8%: pass" in shown
        assert (work / "flips.html").is_file()
    else:
        assert "<LoadedRun: runs/mpt-kl/best.pt" in shown


def _texts(cell: Any) -> list[str]:
    """What a cell printed and showed, as text."""
    outputs = cell.get("outputs", [])
    return [out.get("text") or out.get("data", {}).get("text/plain", "") for out in outputs]
