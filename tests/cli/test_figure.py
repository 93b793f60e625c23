"""`mptctl figure embedding`: a panel a run, as PNG and SVG, and what cannot be drawn."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from mptctl.data.plan import EpochPlan
from mptctl.data.sheet import make_training_sheet
from mptctl.data.split import load_split, make_split
from mptctl.errors import UsageError
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, short_recipe


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with two flat models."""
    root = tmp_path_factory.mktemp("figure")
    split = make_split("digits", run_root=root)
    for name in ("old", "new"):
        recipe = short_recipe("model.embedding_dim=2", "optim.max_steps=12")
        train(RunRequest(recipe, split, root / name, only_old_classes=name == "old"), Observer())
    return root


@pytest.fixture
def root(base: Path, tmp_path: Path) -> Path:
    return shutil.copytree(base, tmp_path / "runs")


def texts_of(path: Path) -> set[str | None]:
    return {text.text for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")}


def test_runs_and_classes_are_named_and_the_picture_is_the_same_each_time(
    mptctl: CommandLine, root: Path
) -> None:
    words = ("figure", "embedding", "old", root / "new", "--run-root", root, "--device", "cpu")
    for name in ("embedding.png", "a.svg", "b.svg"):
        out = mptctl(*words, *(("--out", root / name) if name[0] != "e" else ()))
        assert (out.returncode, out.stdout) == (0, f"{root / name}\n"), out.stderr
    with Image.open(root / "embedding.png") as picture:
        assert picture.format == "PNG"
        assert picture.width > picture.height > 500
    assert (root / "a.svg").read_bytes() == (root / "b.svg").read_bytes()
    assert {"old", "new", "old classes", "new classes", *"0123456789"} <= texts_of(root / "a.svg")
    head = json.loads((root / "split.json").read_text())
    (root / "split.json").write_text(json.dumps(head | {"class_labels": {"3": "three"}}))
    assert mptctl(*words, "--out", root / "c.svg").returncode == 0
    assert {"2", "three (3)"} <= texts_of(root / "c.svg")


def test_training_pictures_are_drawn_as_the_model_sees_them(mptctl: CommandLine, root: Path) -> None:
    flags = ("--run-root", root, "--pictures", "12", "--set")
    out = mptctl("figure", "augment", *flags, "data.transforms=[{name: rand-augment, magnitude: 5}]")
    assert (out.returncode, out.stdout) == (0, f"{root / 'augment.png'}\n"), out.stderr
    assert "rand-augment (magnitude 5)" in out.stderr
    with Image.open(root / "augment.png") as picture:
        assert (picture.format, picture.width) == ("PNG", 2000)
    plain, other = root / "plain.svg", root / "other.svg"
    mptctl("figure", "augment", *flags, "data.transforms=[]", "--out", plain)
    mptctl("figure", "augment", *flags, "data.transforms=[trivial-augment]", "--epoch", "3", "--out", other)
    assert plain.read_bytes() != other.read_bytes()


def test_a_sheet_shows_the_first_pictures_of_an_epoch(root: Path) -> None:
    split = load_split(root)
    recipe = short_recipe("data.augment=none", "data.flip=false", "runtime.seed=4")
    sheet = make_training_sheet(split, recipe, 9, epoch=2)
    rows = EpochPlan(4, recipe.data).order(2, split.indices("train"))[:9]
    assert (sheet.pictures == split.array[rows]).all()
    assert sheet.labels == [{split.classes.names[label]: 1.0} for label in split.labels[rows]]
    mixed = make_training_sheet(split, short_recipe("data.mixup=1", "runtime.seed=4"), 8, epoch=2)
    own = [split.classes.names[label] for label in split.labels[rows[:8]]]
    for place, weights in enumerate(mixed.labels):
        assert set(weights) <= {own[place], own[place ^ 1]}
        assert abs(sum(weights.values()) - 1) < 1e-6
    assert any(len(weights) == 2 for weights in mixed.labels)
    with pytest.raises(UsageError, match="mixed in pairs; ask for 10"):
        make_training_sheet(split, short_recipe("data.mixup=1"), 9, epoch=2)
    with pytest.raises(UsageError, match="the training part has"):
        make_training_sheet(split, recipe, 10**6, epoch=0)
