"""Tables of pictures that other people's libraries wrote become, through `pack`, what the folder of them is."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mptctl.data.split import make_split
from tests.common import MakeLoader
from tests.data.test_pack import whole
from tests.data.test_pack_tables import pack

datasets = pytest.importorskip("datasets", reason="datasets is not installed (make test-integrations)")
webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed (make test-integrations)")
polars = pytest.importorskip("polars", reason="polars is not installed (make test-integrations)")
pandas = pytest.importorskip("pandas", reason="pandas is not installed (make test-integrations)")
# Warnings of other people's libraries are no failures of ours.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module", params=["tiny-imagenet-100", "imagenet-jpegs-250"])
def pictures(
    request: pytest.FixtureRequest, real_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Real pictures as a folder of four classes, ten for training and four for the test."""
    root = tmp_path_factory.mktemp("pictures") / "folder"
    files = sorted(path for path in (real_data / request.param / "train").glob("*/*") if path.is_file())
    for i, path in enumerate(files[:: len(files) // 56][:56]):
        copy = root / ("test" if i % 7 < 2 else "train") / f"class{i % 4}" / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    return root


def columns_of(root: Path, part: str) -> tuple[list[Path], list[str]]:
    paths = sorted(root.glob(f"{part}/*/*"), key=lambda path: path.name[::-1])
    return paths, [path.parent.name for path in paths]


def dataset(root: Path, part: str) -> Any:
    """The set as `datasets` has it, with the bytes inside."""
    paths, labels = columns_of(root, part)
    names = sorted({path.name for path in root.glob("train/*")})
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=names),
            "weight": datasets.Value("float64"),
        }
    )
    images = [{"bytes": path.read_bytes(), "path": path.name} for path in paths]
    rows = {"image": images, "label": labels, "weight": [float(i) for i in range(len(paths))]}
    return datasets.Dataset.from_dict(rows, features=features)


def write(kind: str, root: Path, place: Path) -> None:
    place.mkdir()
    if kind == "save_to_disk":
        parts = {part: dataset(root, part) for part in ("train", "test")}
        datasets.DatasetDict(parts).save_to_disk(str(place), num_shards={"train": 2, "test": 1})
        return
    for part in ("train", "test"):
        path = place / f"{part}-00000-of-00001.parquet"
        paths, labels = columns_of(root, part)
        rows = {"image": [{"bytes": p.read_bytes(), "path": p.name} for p in paths], "label": labels}
        if kind == "to_parquet":
            dataset(root, part).to_parquet(path)
        elif kind == "pandas":
            pandas.DataFrame(rows).astype({"label": "category"}).to_parquet(path)
        else:
            polars.DataFrame(rows).write_parquet(path)


def batches_of(root: Path, runs: Path, loader_of: MakeLoader) -> list[Any]:
    split = make_split("imagefolder", run_root=runs, data_root=root, val_fraction=0.0, order="random", seed=4)
    loader = loader_of(split, "threaded", part="train", train=True, batch_size=7, image_size=48)
    return [batch for epoch in (0, 1) for batch in loader.epoch(epoch)]


@pytest.mark.parametrize("kind", ["save_to_disk", "to_parquet", "pandas", "polars"])
def test_a_table_gives_the_batches_of_the_folder(
    pictures: Path, tmp_path: Path, loader_of: MakeLoader, kind: str
) -> None:
    write(kind, pictures, tmp_path / "data")
    report = pack(tmp_path / "data", tmp_path / "out")
    copied = {name: content for name, content in whole(tmp_path / "out").items() if name.count("/") == 2}
    assert copied == whole(pictures)
    assert report.pictures == len(copied)
    was = batches_of(pictures, tmp_path / "one", loader_of)
    now = batches_of(tmp_path / "out", tmp_path / "other", loader_of)
    assert len(was) == len(now) > 2
    for one, other in zip(was, now, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)
        assert np.array_equal(one.index, other.index)


@pytest.mark.filterwarnings("ignore")
def test_webdataset_reads_the_shards(pictures: Path, tmp_path: Path) -> None:
    write("to_parquet", pictures, tmp_path / "data")
    pack(tmp_path / "data", tmp_path / "out", "shards")
    classes = (tmp_path / "out" / "classes.txt").read_text().split()
    seen = 0
    for part in ("train", "test"):
        samples = webdataset.WebDataset(str(tmp_path / "out" / f"{part}-000000.tar"), shardshuffle=False)
        for sample in samples:
            # It gives suffixes in lower case.
            (path,) = pictures.glob(f"{sample['__key__']}.*")
            assert sample[path.suffix[1:].lower()] == path.read_bytes()
            assert classes[int(sample["cls"])] == path.parent.name
            assert "weight" in json.load(io.BytesIO(sample["json"]))
            seen += 1
    assert seen == len(whole(pictures))


def test_shards_of_webdatasets_writer_become_the_folder(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    for part in ("train", "test"):
        paths, labels = columns_of(pictures, part)
        pattern = str(tmp_path / "shards" / f"{part}-%04d.tar")
        with webdataset.ShardWriter(pattern, maxcount=5, verbose=0) as writer:
            for path, label in zip(paths, labels, strict=True):
                key = path.relative_to(pictures).with_suffix("").as_posix()
                writer.write({"__key__": key, "jpg": path.read_bytes(), "json": {"label": label}})
    pack(tmp_path / "shards", tmp_path / "out")
    copied = {name: content for name, content in whole(tmp_path / "out").items() if name.count("/") == 2}
    assert len(copied) == 56
    for name, content in whole(pictures).items():
        assert copied[str(Path(name).with_suffix(".jpg"))] == content
