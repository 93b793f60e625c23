"""The folder for few-shot: which classes a rule and a list take, and that a split of it is what fewshot asks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from examples.few_shot_folder import RULES, main, pictures_by_class
from mptctl.data.split import make_split
from mptctl.recipe import load_recipe
from tests.common import CommandLine, smooth_picture


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    for label in range(8):
        folder = tmp_path / "birds" / f"{label + 1:03d}.bird"
        folder.mkdir(parents=True)
        for number in range(10):
            smooth_picture(20, 20, 10 * label + number).save(folder / f"{label}_{number}.jpg")
    return tmp_path / "birds"


def test_the_rules_of_cub_by_index() -> None:
    """Every class is in one of the three, and half of them are base classes."""
    taken = {rule: [place for place in range(200) if takes(place)] for rule, takes in RULES.items()}
    assert taken["cub-base"][:3] == [0, 2, 4]
    assert taken["cub-validation"][:3] == [1, 5, 9]
    assert taken["cub-novel"][:3] == [3, 7, 11]
    parts = [taken[rule] for rule in ("cub-base", "cub-validation", "cub-novel")]
    assert [len(part) for part in parts] == [100, 50, 50]
    assert sorted(place for part in parts for place in part) == taken["all"] == list(range(200))


def test_a_split_of_the_folder_has_the_base_classes_as_old_ones(
    birds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    main([str(out), "--base", str(birds), "cub-base", "--novel", str(birds), "cub-novel"])
    assert "4 base and 2 novel classes" in capsys.readouterr().out
    names = (out / "base.txt").read_text().split()
    assert names == ["001.bird", "003.bird", "005.bird", "007.bird"]
    split = make_split("imagefolder", run_root=tmp_path / "runs", data_root=out, old_names=names)
    assert split.classes.new == ("004.bird", "008.bird")
    test = split.labels[split.indices("test")]
    assert [(test == label).sum() for label in range(6)] == [1] * 4 + [9] * 2
    assert len(split.indices("val", 4)) == 4


def test_lists_name_classes_or_pictures(birds: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("008.bird\n002.bird\n")
    assert list(pictures_by_class(birds, str(names))) == ["008.bird", "002.bird"]
    table = tmp_path / "novel.csv"
    table.write_text("filename,label\n1_3.jpg,002.bird\n1_0.jpg,002.bird\n0_0.jpg,001.bird\n")
    found = pictures_by_class(birds, str(table))
    assert [path.name for path in found["002.bird"]] == ["1_3.jpg", "1_0.jpg"]
    flat = tmp_path / "flat"
    flat.mkdir()
    for picture in birds.rglob("*.jpg"):
        shutil.copy2(picture, flat / picture.name)
    assert pictures_by_class(flat, str(table))["001.bird"] == [flat / "0_0.jpg"]
    names.write_text("nobody\n")
    with pytest.raises(SystemExit, match="nobody: not there"):
        pictures_by_class(birds, str(names))
    table.write_text("filename,label\nno.jpg,002.bird\n")
    with pytest.raises(SystemExit, match=r"no\.jpg: not there"):
        pictures_by_class(birds, str(table))
    with pytest.raises(SystemExit, match="is a base class and a novel one"):
        main([str(tmp_path / "x"), "--base", str(birds), "all", "--novel", str(birds), "cub-novel"])


@pytest.mark.parametrize(
    ("name", "margin", "decay", "epochs"),
    [
        ("mini-imagenet-cosine", -0.05, 5e-5, 400),
        ("mini-imagenet-softmax", -0.3, 1e-4, 400),
        ("cub-cosine", -0.01, 5e-4, 200),
        ("cub-softmax", -0.05, 5e-3, 200),
        ("mini-to-cub-cosine", -0.05, 5e-5, 400),
        ("mini-to-cub-softmax", -0.005, 1e-6, 400),
    ],
)
def test_the_papers_settings(name: str, margin: float, decay: float, epochs: int) -> None:
    recipe = load_recipe(name)
    assert recipe.model.head == ("cosine" if name.endswith("cosine") else "linear-margin")
    assert (recipe.model.head_margin, recipe.optim.weight_decay, recipe.optim.epochs) == (
        margin,
        decay,
        epochs,
    )
    assert (recipe.optim.name, recipe.optim.lr, recipe.optim.batch_size) == ("adam", 3e-3, 256)
    assert (recipe.data.image_size, recipe.model.arch) == (84, "resnet18")


def test_the_recipe_trains_and_novel_classes_are_asked(
    birds: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    out, root = tmp_path / "out", tmp_path / "runs"
    main([str(out), "--base", str(birds), "cub-base", "--novel", str(birds), "cub-novel"])
    mptctl.must(
        "split", "imagefolder", "--data-root", out, "--old-classes", out / "base.txt", "--run-root", root
    )
    small = (
        "data.image_size=32", "data.eval_resize=36", "optim.batch_size=8", "optim.max_steps=1",
        "runtime.threads=1",
    )  # fmt: skip
    sets = [word for key in small for word in ("--set", key)]
    mptctl.must("train-old", "--recipe", "cub-cosine", *sets, "--run-root", root)
    mptctl.must("fewshot", "old", "--way", "2", "--query", "4", "--episodes", "3", "--run-root", root)
