"""The loader bench runs every row for real, and says what it measured in the contract's words."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from mptctl.bench.loader import LoaderBench, bench_loader
from mptctl.bench.opponents import PictureFiles
from mptctl.bench.runners import ROWS, LoaderRunner
from mptctl.cli.app import main
from mptctl.data.loading.choose import LOADERS
from mptctl.errors import DataError
from mptctl.recipe import DataRecipe, load_recipe
from tests.forked import forking


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 JPEGs of 60 x 50 below train/."""
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for number in range(24):
        folder = root / "train" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 256, (6, 5, 3), dtype=np.uint8))
        small.resize((50, 60), Image.Resampling.BICUBIC).save(folder / f"{number}.jpg")
    return root


SMALL = ["data.image_size=24", "data.threads=1", "optim.batch_size=8", "model.stem=small"]


@pytest.mark.slow
@pytest.mark.parametrize("augment", ["random-resized-crop", "pad-crop"])
def test_every_row_is_measured_or_skipped_with_a_reason(
    pictures: Path, augment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mptctl.bench.runners.usable_cores", lambda: 1)
    # Workers of a DataLoader, which import torch first, are forked from a process that has it.
    monkeypatch.setattr(
        "mptctl.bench.opponents.DataLoader",
        lambda *given, **options: DataLoader(*given, **(options | {"multiprocessing_context": forking()})),
    )
    rows, repeats = ROWS, 1
    if augment != "pad-crop":
        rows, repeats = tuple(name for name in ROWS if "dataloader" not in name), 2
    said: list[str] = []
    found = bench_loader(
        load_recipe("imagenet", [*SMALL, f"data.augment={augment}"]),
        data_root=pictures,
        rows=rows,
        repeats=repeats,
        seconds=0.1,
        device=torch.device("cpu"),
        say=said.append,
    )
    assert {row.name for row in found.rows} | set(found.skipped) == set(rows)
    edges = {"dali-cpu": "DALI resizes the edges of pictures in its own way, and they are seen"}
    assert found.skipped == {"dali-mixed": "no CUDA device"} | (edges if augment == "pad-crop" else {})
    assert all(len(row.runs) == repeats and row.images_per_s > 0 for row in found.rows)
    assert found.pictures == 24
    assert len([line for line in said if line.startswith("run ")]) == repeats * len(found.rows)
    assert LoaderBench.model_validate_json(found.model_dump_json()) == found


def test_a_dataloader_has_the_number_of_workers_with_which_it_is_fastest(
    pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speeds are made up; what a DataLoader really does is measured above."""
    monkeypatch.setattr("mptctl.bench.runners.usable_cores", lambda: 6)
    speeds = {1: 10.0, 2: 30.0, 4: 20.0, 6: 25.0}
    monkeypatch.setattr(LoaderRunner, "run", lambda runner, *_: speeds[runner.workers or 0])
    said: list[str] = []
    found = bench_loader(
        load_recipe("imagenet", SMALL), data_root=pictures, rows=("dataloader-pil",), repeats=1, seconds=0.1,
        device=torch.device("cpu"), say=said.append,
    )  # fmt: skip
    timed = [line for line in said if line.startswith("dataloader-pil with")]
    assert timed == [f"dataloader-pil with {count} workers: {speeds[count]:.0f} images/s" for count in speeds]
    assert [row.workers for row in found.rows] == [2]


def test_the_opponents_transforms_are_those_of_the_recipe(pictures: Path) -> None:
    steps = [
        {"name": "color-jitter", "brightness": 0.2, "p": 0.5},
        {"name": "rand-augment", "magnitude": 5, "interpolation": "bilinear"},
        {"name": "trivial-augment", "fill": [1, 2, 3]},
        {"name": "grayscale", "p": 1},
        {"name": "gaussian-blur", "kernel_size": 3},
        {"name": "rotation", "degrees": 5},
        {"name": "random-erasing", "p": 1, "value": "random"},
    ]
    data = DataRecipe.model_validate({"image_size": 24, "transforms": steps, "interpolation": "bicubic"})
    files = sorted(str(path) for path in pictures.glob("train/*/*"))[:3]
    for reader in ("torchcodec", "pil"):
        dataset = PictureFiles(files, [0, 0, 0], data, reader)  # type: ignore[arg-type]
        names = [type(step).__name__ for step in dataset.transform.transforms]  # type: ignore[attr-defined]
        assert names[-1] == "RandomErasing"
        assert [name for name in names if "Augment" in name] == ["RandAugment", "TrivialAugmentWide"]
        assert dataset[0][0].shape == (3, 24, 24)


def test_json_is_one_object(
    pictures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bench", "loader", "--data-root", str(pictures), "--rows", "dali-cpu", "--repeats", "1"]
    arguments += ["--seconds", "0.1", *(part for key in SMALL for part in ("--set", key))]
    for extra in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["mptctl", *arguments, *extra])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
    _, _, rest = capsys.readouterr().out.partition('{"bench"')
    found = json.loads('{"bench"' + rest)
    assert found["bench"] == "loader"
    assert [row["name"] for row in found["rows"]] == ["dali-cpu"]


def test_a_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train/"):
        bench_loader(load_recipe("imagenet"), data_root=tmp_path)


def test_both_readers_of_the_opponent_see_the_same_picture(pictures: Path) -> None:
    files = sorted(str(path) for path in pictures.glob("train/*/*"))[:3]
    data = DataRecipe(image_size=24, augment="none", flip=False)
    one, other = (PictureFiles(files, [0, 0, 0], data, reader) for reader in ("torchcodec", "pil"))
    for row in range(3):
        assert (one[row][0] - other[row][0]).abs().max() < 1.5 / 255 / min(data.std)


def test_rows_that_need_dali_are_skipped_where_it_is_not_installed(
    pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name.startswith("nvidia") else real(name)
    )
    found = bench_loader(
        load_recipe("imagenet", SMALL), data_root=pictures, rows=("dali-cpu", "dali-mixed", "threaded"),
        repeats=1, seconds=0.05, device=torch.device("cpu"),
    )  # fmt: skip
    assert [row.name for row in found.rows] == ["threaded"]
    assert found.skipped == {"dali-cpu": "DALI is not installed", "dali-mixed": "no CUDA device"}


def test_torchcodecs_row_is_skipped_for_a_format_that_it_cannot_decode(
    tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mptctl.bench.runners.usable_cores", lambda: 1)
    shutil.copytree(pictures / "train", tmp_path / "train")
    bitmap = tmp_path / "train" / "class0" / "a.bmp"
    Image.new("RGB", (50, 60)).save(bitmap)
    found = bench_loader(
        load_recipe("imagenet", SMALL), data_root=tmp_path, rows=("dataloader-torchcodec", "threaded"),
        repeats=1, seconds=0.05, device=torch.device("cpu"),
    )  # fmt: skip
    assert [row.name for row in found.rows] == ["threaded"]
    assert f"torchcodec cannot decode {bitmap}: Unsupported" in found.skipped["dataloader-torchcodec"]


def test_every_kind_of_loader_is_a_row() -> None:
    assert {kind.name for kind in LOADERS} < set(ROWS)
