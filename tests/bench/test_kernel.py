"""`bench kernel` and `bench` over a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from mptctl.bench.loss_timing import eager_loss, least_bytes
from mptctl.bench.runners import LEAST_BATCHES
from mptctl.bench.sources import repeat_pictures
from mptctl.bench.sweep import Setting, Sweep, sweep_dali
from mptctl.cli.app import app
from mptctl.data.sources import read_source
from mptctl.errors import UsageError
from mptctl.recipe import load_recipe
from tests.common import smooth_picture


def test_bytes_that_must_be_moved() -> None:
    # Two rows of 6 classes, 3 old, 4 bytes each: 6 + 6 + 3 read, 6 written, a label of 8; and the loss.
    assert least_bytes(2, 6, 3, 4) == 2 * (21 * 4 + 8) + 4


def test_what_is_timed_is_the_objective_that_the_kernel_computes() -> None:
    from mptctl.methods.table import build_method

    torch.manual_seed(0)
    logits, target = torch.randn(5, 8, dtype=torch.float64), torch.randint(0, 8, (5,))
    old, ref = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64)
    ours = build_method("mpt-kl", num_old=4, k=4.0)(logits, target, old_logits=old, ref_logits=ref)
    assert float(eager_loss(logits, target, old, ref)) == pytest.approx(float(ours["loss"]), rel=1e-9)


def test_without_a_gpu_nothing_is_timed() -> None:
    run = CliRunner().invoke(app, ["bench", "kernel", "--device", "cpu"])
    assert isinstance(run.exception, UsageError)
    assert str(run.exception).startswith("bench kernel: cpu is no GPU; ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rows", "128,many"], "--rows: 'many' is not a number of at least 2"),
        (["--classes", "1"], "--classes: '1' is not a number of at least 2"),
        (["--dtypes", "float8"], "--dtypes float8: unknown; did you mean float32?"),
    ],
)
def test_sizes_that_cannot_be(flags: list[str], message: str) -> None:
    run = CliRunner().invoke(app, ["bench", "kernel", *flags])
    assert isinstance(run.exception, UsageError)
    assert message in str(run.exception)


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
    said: list[str] = []
    sweep = Sweep(imagined_speed, said.append)
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
    assert sum(line.startswith("sweep: ") for line in said) == len(found.rows) + 6


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
