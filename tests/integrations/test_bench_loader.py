"""The loader bench measures the library webdataset on the shards that it writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mptctl.bench.loader import bench_loader
from mptctl.recipe import load_recipe

pytest.importorskip("webdataset", reason="webdataset is not installed (make test-integrations)")


def test_webdataset_is_measured_beside_our_loaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mptctl.bench.runners.usable_cores", lambda: 1)
    rng = np.random.default_rng(0)
    for number in range(16):
        folder = tmp_path / "train" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (50, 60, 3), dtype=np.uint8)).save(folder / f"{number}.JPEG")
    bench = bench_loader(
        load_recipe("imagenet", ["data.image_size=24", "data.threads=1", "optim.batch_size=8"]),
        data_root=tmp_path,
        sources=("webdataset",),
        rows=("threaded", "webdataset-pil"),
        repeats=1,
        seconds=0.1,
        device=torch.device("cpu"),
    )
    assert [(row.name, row.source) for row in bench.rows] == [
        ("threaded", "webdataset"),
        ("webdataset-pil", "webdataset"),
    ]
    assert all(row.images_per_s > 0 for row in bench.rows)
    assert "times webdataset-pil" in bench.verdict
