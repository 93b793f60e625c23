"""Folders of pictures: small generated ones, and the real ones where MPTCTL_TEST_DATA says where they are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import make_loader
from mptctl.data.split import Split, make_split
from mptctl.recipe import DataRecipe

CPU = torch.device("cpu")


def smooth_picture(height: int, width: int, seed: int) -> Image.Image:
    """A picture with edges and slopes, unlike any other seed's."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (max(2, height // 9), max(2, width // 9), 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def make_folder(
    root: Path, *, classes: int = 4, train: int = 10, val: int = 4, size: int | None = None
) -> Path:
    """``train/`` and ``val/`` with JPEGs of many sizes, or of one."""
    rng = np.random.default_rng(5)
    seed = 0
    for part, count in (("train", train), ("val", val)):
        for label in range(classes):
            folder = root / part / f"class{label}"
            folder.mkdir(parents=True)
            for number in range(count):
                height, width = (size, size) if size else rng.integers(40, 150, 2).tolist()
                seed += 1
                smooth_picture(height, width, seed).save(folder / f"{number:03d}.jpg", quality=90)
    return root


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 training and 16 test pictures of 4 classes; not to be changed."""
    return make_folder(tmp_path_factory.mktemp("pictures"))


@pytest.fixture
def own_folder(folder: Path, tmp_path: Path) -> Path:
    """A copy of ``folder`` that a test may damage."""
    return shutil.copytree(folder, tmp_path / "pictures")


@pytest.fixture(scope="session")
def split(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split of ``folder`` without a validation part."""
    return make_split(
        "imagefolder", run_root=tmp_path_factory.mktemp("runs"), data_root=folder, val_fraction=0.0
    )


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder that holds tiny-imagenet-100, cifar10-jpeg and imagenet-jpegs-250."""
    where = os.environ.get("MPTCTL_TEST_DATA")
    if not where or not (Path(where) / "imagenet-jpegs-250").is_dir():
        pytest.skip("MPTCTL_TEST_DATA does not name a folder with imagenet-jpegs-250 in it")
    return Path(where)


@pytest.fixture(scope="session")
def real_split(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Split:
    """48 real photographs as training part and as test part."""
    root = tmp_path_factory.mktemp("real")
    files = sorted((real_data / "imagenet-jpegs-250" / "train").glob("*/*"))[::5][:48]
    for number, file in enumerate(files):
        for part in ("train", "val"):
            target = root / part / f"class{number % 4}"
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target / f"{number}.jpg")
    return make_split(
        "imagefolder", run_root=tmp_path_factory.mktemp("runs"), data_root=root, val_fraction=0.0
    )


MakeLoader = Callable[..., Loader]


@pytest.fixture
def loader_of(tmp_path: Path, request: pytest.FixtureRequest) -> MakeLoader:
    """Make loaders on the CPU that are closed when the test ends."""

    def make(split: Split, kind: str, **changes: object) -> Loader:
        passing = {
            "part": "train",
            "batch_size": 8,
            "seed": 3,
            "train": True,
            "device": CPU,
            "cache_dir": tmp_path,
        }
        passing |= {
            key: changes.pop(key)
            for key in list(changes)
            if key in (*passing, "rank", "world_size", "num_classes")
        }
        data = DataRecipe.model_validate({"loader": kind, "image_size": 32, "workers": 2, **changes})
        loader = make_loader(split, data, **passing)  # type: ignore[arg-type]
        request.addfinalizer(loader.close)
        return loader

    return make
