"""The example that writes a few pictures of new classes: those of the split, as files."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mptctl.data.split import make_split
from tests.common import ROOT


def test_it_writes_the_first_training_pictures_of_each_new_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = make_split("digits", run_root=tmp_path / "runs", seed=3)
    out = tmp_path / "few"
    monkeypatch.setattr(sys, "argv", ["few_pictures.py", str(split.run_root), str(out), "--count", "2"])
    runpy.run_path(str(ROOT / "examples" / "few_pictures.py"), run_name="__main__")
    assert sorted(folder.name for folder in out.iterdir()) == list(
        split.classes.names[split.classes.num_old :]
    )
    rows = split.indices("train")
    for name in split.classes.names[split.classes.num_old :]:
        label = split.classes.names.index(name)
        files = sorted((out / name).iterdir(), key=lambda path: int(path.stem))
        assert [int(path.stem) for path in files] == rows[split.labels[rows] == label][:2].tolist()
        for path in files:
            np.testing.assert_array_equal(np.asarray(Image.open(path)), split.picture(int(path.stem)))
