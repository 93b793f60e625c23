"""The sweep finds the fastest settings, keeps what fails as a row with its reason, and tells of each run at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mptctl.bench.runners import LEAST_BATCHES
from mptctl.bench.sources import repeat_pictures
from mptctl.bench.sweep import Setting, Sweep, SweepRow, sweep_dali
from mptctl.data.sources import read_source
from mptctl.recipe import load_recipe
from tests.common import smooth_picture

# Images/s of an imagined card: the hardware decoder alone, and the rest of it without.
HARDWARE, OTHERS = 3000.0, 5000.0


def imagined_speed(setting: Setting) -> float:
    """Both decoders work on their parts of a batch side by side; the slower one sets the pace."""
    if setting.batch_size == 408:
        raise MemoryError("no memory for a batch of 408\nand a second line")
    load = setting.hw_decoder_load or 0.0
    seconds = max(load / HARDWARE, (1 - load) / OTHERS)
    return setting.batch_size / 256 / seconds * (1.0 if setting.fancy_upsampling else 1.25)


def test_the_load_at_which_both_decoders_end_together_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mptctl.bench.sweep.usable_cores", lambda: 16)
    told: list[SweepRow] = []
    sweep = Sweep(imagined_speed, lambda line: None, told.append)
    sweep.try_loads()
    sweep.repeat_fastest(3)
    found = sweep.conclude()
    # 3,000 / (3,000 + 5,000) = 0.375, at which both take 1/8,000 second a picture: the sum of both.
    assert found.settings["hw_decoder_load"] == 0.375
    assert "hw_decoder_load 0.375: 8,000 images/s" in found.verdict
    best = [row for row in found.rows if row.images_per_s == 8000 and row.fancy_upsampling]
    assert {len(row.runs) for row in best[:3]} == {3}
    failed = [row for row in found.rows if row.batch_size == 408]
    assert {row.problem for row in failed} == {"no memory for a batch of 408"}
    assert [row.hw_decoder_load for row in failed] == [0.0, 1.0, 0.65, 0.4, 0.2]
    assert len(told) == len(found.rows) + 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pictures")
    (root / "train" / "one").mkdir(parents=True)
    for number in range(4):
        smooth_picture(40, 48, number).save(root / "train" / "one" / f"{number}.jpg")
    return root


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_dali_is_swept_or_every_row_says_why_not(folder: Path, tmp_path: Path, device: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("takes a machine without a GPU")
    recipe = load_recipe("imagenet", ["data.image_size=16", "optim.batch_size=4"])
    manifest = read_source("imagefolder", folder, needs_test=False).manifest
    split = repeat_pictures(manifest, LEAST_BATCHES * 4, tmp_path)
    said: list[str] = []
    found = sweep_dali(recipe, split, torch.device(device), tmp_path, 2, 0.05, said.append)
    if device == "cpu":
        assert set(found.settings) == {"threads", "prefetch"}
        assert all(row.images_per_s for row in found.rows)
        assert max(len(row.runs) for row in found.rows) == 2
    else:
        assert found.settings == {}
        assert found.verdict.startswith("DALI could not be measured: ")
        assert all(row.problem and "\n" not in row.problem for row in found.rows)
    assert said[-1] == found.verdict
