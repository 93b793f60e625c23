"""`--dry-run` of every verb that trains: no picture is decoded, nothing is written, and what is refused is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from mptctl.data.split import make_split
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, short_recipe

KEYS = ("--recipe", "digits", "--device", "cpu", "--set", "optim.batch_size=4")
VERBS = [
    ("train-old",),
    ("train-ref",),
    ("train-mpt", "--k", "1.5"),
    ("train-baseline", "no-treatment"),
    ("train-baseline", "elodi-topk", "--cache-teachers"),
]


@pytest.fixture(scope="module")
def unreadable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with teachers, whose picture files have been garbage since they were trained."""
    root = tmp_path_factory.mktemp("pictures")
    for part, count in (("train", 10), ("val", 2)):
        for grey, name in enumerate(("bird", "cat", "dog", "fish")):
            (root / part / name).mkdir(parents=True)
            for i in range(count):
                Image.new("RGB", (12, 12), (60 * grey + i,) * 3).save(root / part / name / f"{i}.png")
    runs = root / "runs"
    split = make_split("imagefolder", run_root=runs, data_root=root, val_fraction=0.2)
    for name in ("old", "ref"):
        recipe = short_recipe("optim.max_steps=1", "optim.batch_size=4")
        train(RunRequest(recipe, split, runs / name, only_old_classes=name == "old"), Observer())
    shutil.rmtree(runs / "cache")
    for picture in root.glob("*/*/*.png"):
        picture.write_bytes(b"garbage")
    return runs


def tree(runs: Path) -> dict[Path, tuple[int, int]]:
    return {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in runs.parent.rglob("*")}


def test_the_pictures_really_cannot_be_read(mptctl: CommandLine, unreadable: Path, tmp_path: Path) -> None:
    runs = shutil.copytree(unreadable, tmp_path / "runs")
    done = mptctl("train-ref", "--run-root", runs, "--name", "x", *KEYS)
    assert done.returncode == 4


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_dry_run_decodes_and_writes_nothing(
    mptctl: CommandLine, unreadable: Path, verb: tuple[str, ...]
) -> None:
    before = tree(unreadable)
    name = ("--name", "new")
    done = mptctl(*verb, "--run-root", unreadable, *name, *KEYS, "--dry-run", "--json", "--seed", "7")
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    only_old = verb == ("train-old",)
    classes = 2 if only_old else 4
    assert plan["pictures"] == {"train": 8 * classes, "val": 2 * classes, "test": 2 * classes}
    assert (plan["classes"], plan["old_classes"]) == (classes, 2)
    assert (plan["steps_per_epoch"], plan["total_steps"]) == (2 * classes, 15 * 2 * classes)
    assert (plan["batch_size"], plan["lr"], plan["seed"], plan["device"]) == (4, 0.1, 7, "cpu")
    assert plan["k"] == (1.5 if "train-mpt" in verb else 0.0)
    assert plan["loader"].startswith("resident loader: ")
    taught = [str(unreadable / teacher / "best.pt") for teacher in ("old", "ref")]
    expected = {"train-old": [], "train-ref": [], "no-treatment": taught[:1]}
    assert plan["teachers"] == expected.get(verb[-1], taught)
    said = mptctl(*verb, "--run-root", unreadable, *name, *KEYS, "--dry-run")
    assert said.returncode == 0, said.stderr
    assert f"steps       {plan['total_steps']:,} ({plan['steps_per_epoch']:,} an epoch)" in said.stdout
    one = "warning: elodi-topk learns from an ensemble and is given one reference, "
    assert (one in said.stdout) is ("elodi-topk" in verb)
    assert said.stdout.endswith("nothing was written\n")
    assert tree(unreadable) == before


def test_a_dry_run_takes_what_a_partial_file_leaves_open_from_the_splits_preset(
    mptctl: CommandLine, digits_root: Path, tmp_path: Path
) -> None:
    partial = tmp_path / "partial.yaml"
    partial.write_text("optim: {lr: 0.05, epochs: 3}\n")
    flags = ("train-ref", "--run-root", digits_root, "--name", "new", "--dry-run")
    done = mptctl(*flags, "--recipe", partial)
    assert ", 3 epochs, batch size 64, lr 0.05" in done.stdout, done.stderr
    plan = json.loads(mptctl(*flags, "--recipe", partial, "--json").stdout)
    assert (plan["image_size"], plan["epochs"], plan["batch_size"], plan["lr"]) == (8, 3, 64, 0.05)
    assert json.loads(mptctl(*flags, "--json").stdout)["recipe"] == "digits"


def few_pictures(root: Path, count: int) -> Path:
    """A run root with a split of so many training pictures, of one old class."""
    for part, number in (("train", count), ("val", 2)):
        (root / part / "cat").mkdir(parents=True)
        for i in range(number):
            Image.new("RGB", (8, 8), (i % 256, i // 256, 90)).save(root / part / "cat" / f"{i}.png")
    make_split("imagefolder", run_root=root / "runs", data_root=root, val_fraction=0.0, old_fraction=1.0)
    return root / "runs"


SMALL = ("--set", "data.image_size=16", "--set", "data.eval_resize=16", "--set", "runtime.device=cpu")


def test_few_pictures_for_the_batch_bring_advice_that_names_the_preset_for_them(
    mptctl: CommandLine, tmp_path: Path
) -> None:
    runs = few_pictures(tmp_path, 325)

    def notes(*flags: str) -> list[str]:
        done = mptctl("train-old", "--run-root", runs, *SMALL, *flags, "--dry-run", "--json")
        return [note for note in json.loads(done.stdout)["notes"] if "leaves out" in note]

    for recipe in ("imagenet", "finetune"):
        (warning,) = notes("--recipe", recipe)
        assert warning.startswith(
            "warning: optim.batch_size 128: an epoch of 325 training pictures has 2 steps and leaves out 69 of "
            "them; set optim.batch_size=32"
        )
        assert ("--recipe finetune" in warning) == (recipe == "imagenet")
        assert notes("--recipe", recipe, "--set", "optim.batch_size=32") == []
