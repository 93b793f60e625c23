"""`mptctl evaluate` of run folders: slices by pictures, and classes of other names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import Split, make_split
from tests.common import CommandLine
from tests.untrained import untrained_run


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Split:
    """Untrained models of the digits in an empty folder: old, and new, which knows all classes."""
    monkeypatch.chdir(tmp_path)
    split = make_split("digits", run_root=Path("runs"))
    untrained_run(Path("runs/old"), split.classes.old, split.classes.num_old, seed=0)
    untrained_run(Path("runs/new"), split.classes.names, split.classes.num_old, seed=2)
    return split


def test_slices_by_size(runs: Split, mptctl: CommandLine) -> None:
    words = ("evaluate", "old", "new", "--device", "cpu", "--min-slice", "1", "--json")
    page = json.loads(mptctl(*words, "--by", "size", "--by", "class,size").stdout)
    rows = runs.indices("test")
    rows = rows[runs.labels[rows] < runs.classes.num_old]
    side = min(runs.picture(int(rows[0])).shape[:2])
    low = 2 ** int(np.log2(side))
    by = {tuple(row["by"].items()): row["n"] for row in page["slices"]}
    assert by[("size", f"{low} to {2 * low - 1} px"),] == len(rows)
    for place, name in enumerate(runs.classes.old):
        key = (("class", name), ("size", f"{low} to {2 * low - 1} px"))
        assert by[key] == (runs.labels[rows] == place).sum()


def test_a_class_map_for_run_folders(runs: Split, mptctl: CommandLine) -> None:
    """OLD under other names than the split's is refused (5), and read with a map as it would be under the split's."""
    names = tuple(f"digit {name}" for name in runs.classes.old)
    untrained_run(Path("runs/former"), names, len(names), seed=0)
    words = ("new", "--device", "cpu", "--json")
    refused = mptctl("evaluate", "former", *words)
    assert (refused.returncode, refused.stdout) == (5, "")
    pairs = zip(names, runs.classes.old, strict=True)
    Path("map.yaml").write_text("".join(f"{one}: {other}\n" for one, other in pairs))
    found = json.loads(mptctl("evaluate", "former", *words, "--class-map", "map.yaml").stdout)
    plain = json.loads(mptctl("evaluate", "old", *words).stdout)
    for key in ("counts", "n_old", "per_class", "margins"):
        assert found[key] == plain[key]
