"""Arrow arrays are those of pyarrow itself, and a comparison waits for no library that is slow to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mptctl.evaluation.reading.workspace import BLOCK, number_array, text_array


def test_arrays_are_those_of_pyarrow() -> None:
    text = np.array(["", "0", "-1", "猫", "a\tb"] * (BLOCK // 4))
    assert text_array(text).equals(pa.array(text, pa.string()))
    numbers = np.arange(20, dtype=np.int64)[::2]  # strided: memory that cannot be shared as it is
    assert number_array(numbers).equals(pa.array(numbers))
    assert len(text_array(np.array([], dtype=str))) == len(number_array(numbers[:0])) == 0
    with pytest.raises(UnicodeEncodeError):
        text_array(np.array(["\ud800"]))


def test_a_comparison_of_archives_waits_for_no_library_that_it_does_not_need(tmp_path: Path) -> None:
    for name in ("old", "new"):
        np.savez(
            tmp_path / f"{name}.npz",
            id=np.arange(4),
            label=np.array([0, 1, 0, 1]),
            pred=np.array([0, 1, 1, 1]),
        )
    program = (
        "import sys\nfrom mptctl.evaluation.evaluate import compare\nfrom pathlib import Path\n"
        "from mptctl.evaluation.reading.predictions import read_predictions as read\n"
        f"compare(read(Path(r'{tmp_path / 'old.npz'}')), read(Path(r'{tmp_path / 'new.npz'}')))\n"
        "assert 'duckdb' in sys.modules\nprint('pandas' in sys.modules, 'scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False False\n", "")
