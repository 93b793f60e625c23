"""Files of labels are read part by part, and a wrong row is named as it is counted in its own file."""

from pathlib import Path

import pytest

from mptctl.errors import DataError
from mptctl.evaluation.labels.label_file import read_label_file

KEY = "draw-0123456789abcdef-0-4-none"


def test_a_row_is_counted_in_its_own_part(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"draw,label\n{KEY}-0,cat\n{KEY}-1,dog\n")
    (tmp_path / "b.csv").write_text("draw,label\nnonsense,cat\n")
    with pytest.raises(DataError, match=r"b\.csv: row 1: nonsense is no fingerprint"):
        read_label_file(tmp_path)
