"""`mptctl evaluate` of run folders: slices by pictures, and classes of other names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from mptctl.data.split import Split, make_split
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.networks import build_model
from mptctl.recipe import load_recipe
from tests.common import CommandLine


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Split:
    """Untrained models of the digits in an empty folder: old, again (the same classes), new and free (all classes)."""
    monkeypatch.chdir(tmp_path)
    split = make_split("digits", run_root=Path("runs"))
    for seed, (name, classes) in enumerate(
        {"old": split.classes.old, "again": split.classes.old, "new": split.classes.names}.items()
    ):
        run_folder(split, name, classes, seed)
    run_folder(split, "free", split.classes.names, 9)
    return split


def run_folder(split: Split, name: str, classes: tuple[str, ...], seed: int) -> None:
    recipe = load_recipe("digits")
    torch.manual_seed(seed)
    model = build_model(recipe.model, len(classes), recipe.data.image_size)
    meta = CheckpointMeta(recipe=recipe, class_names=classes, num_old=split.classes.num_old)
    (split.run_root / name).mkdir()
    save_checkpoint(split.run_root / name / "best.pt", meta, model.state_dict())


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
    checkpoint = torch.load(runs.run_root / "old" / "best.pt", weights_only=True)
    recipe = load_recipe("digits")
    model = build_model(recipe.model, len(names), recipe.data.image_size)
    model.load_state_dict(checkpoint["model"])
    meta = CheckpointMeta(recipe=recipe, class_names=names, num_old=len(names))
    (runs.run_root / "former").mkdir()
    save_checkpoint(runs.run_root / "former" / "best.pt", meta, model.state_dict())
    words = ("new", "--device", "cpu", "--json")
    refused = mptctl("evaluate", "former", *words)
    assert (refused.returncode, refused.stdout) == (5, "")
    pairs = zip(names, runs.classes.old, strict=True)
    Path("map.yaml").write_text("".join(f"{one}: {other}\n" for one, other in pairs))
    found = json.loads(mptctl("evaluate", "former", *words, "--class-map", "map.yaml").stdout)
    plain = json.loads(mptctl("evaluate", "old", *words).stdout)
    for key in ("counts", "n_old", "per_class", "margins"):
        assert found[key] == plain[key]
