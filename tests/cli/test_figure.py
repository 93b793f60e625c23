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
    """A run root with two flat models and one that is not."""
    root = tmp_path_factory.mktemp("figure")
    split = make_split("digits", run_root=root)
    for name, dim in (("old", 2), ("new", 2), ("wide", 8)):
        recipe = short_recipe(f"model.embedding_dim={dim}", "optim.max_steps=12", f"runtime.seed={len(name)}")
        train(RunRequest(recipe, split, root / name, only_old_classes=name == "old"), Observer())
    return root


@pytest.fixture
def root(base: Path, tmp_path: Path) -> Path:
    return shutil.copytree(base, tmp_path / "runs")


def test_it_is_written_below_the_run_root(mptctl: CommandLine, root: Path) -> None:
    out = mptctl("figure", "embedding", "old", "new", "--run-root", root, "--device", "cpu")
    path = root / "embedding.png"
    assert (out.returncode, out.stdout) == (0, f"{path}\n"), out.stderr
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.width > picture.height > 500


def test_an_svg_names_runs_and_classes_and_is_the_same_each_time(
    mptctl: CommandLine, root: Path, tmp_path: Path
) -> None:
    paths = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for path in paths:
        words = ("figure", "embedding", "old", root / "new", "--out", path, "--run-root", root)
        out = mptctl(*words, "--device", "cpu")
        assert (out.returncode, out.stdout) == (0, f"{path}\n"), out.stderr
    assert paths[0].read_bytes() == paths[1].read_bytes()
    tree = ElementTree.parse(paths[0])
    texts = {text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert {"old", "new", "old classes", "new classes", *"0123456789"} <= texts


def test_classes_have_their_names_for_people(mptctl: CommandLine, root: Path, tmp_path: Path) -> None:
    head = json.loads((root / "split.json").read_text())
    (root / "split.json").write_text(json.dumps(head | {"class_labels": {"3": "three"}}))
    path = tmp_path / "a.svg"
    out = mptctl("figure", "embedding", "old", "--out", path, "--run-root", root, "--device", "cpu")
    assert out.returncode == 0, out.stderr
    texts = {text.text for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")}
    assert {"2", "three (3)"} <= texts


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
    refused = mptctl("figure", "augment", *flags, "data.transforms=[rand]", "--out", other)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


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
