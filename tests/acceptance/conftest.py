"""A folder with pictures in every form, files of predictions, and four trained runs of the digits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.common import files_below, made_once
from tests.same.command import HERE, Commands
from tests.same.inputs import make_predictions, make_sources

SHORT = ("--set", "optim.epochs=2", *HERE)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder as commands find it; not to be changed."""
    return made_once("prepared", prepare, tmp_path_factory.mktemp("prepared"))


def prepare(place: Path) -> None:
    """Make the folder."""
    place.mkdir()
    make_sources(place)
    make_predictions(place)
    for part in ("train", "val"):
        shutil.copytree(place / "photos" / part, place / "classes", dirs_exist_ok=True)
    shutil.copytree(place / "photos", place / "broken")
    picture = place / "broken/train/class1/02.jpg"
    picture.write_bytes(picture.read_bytes()[:200])
    for name, text in TEXTS.items():
        (place / name).write_text(text, encoding="utf-8")
    (place / "empty").mkdir()
    with np.load(place / "new.npz") as arrays:
        new = dict(arrays)
    np.savez(place / "validation.npz", **new | {"id": np.char.replace(new["id"], "test", "val")})
    hound = {key: np.where(new[key] == "dog", "hound", new[key]) for key in ("label", "classes")}
    np.savez(place / "renamed.npz", **new | hound)
    commands = Commands(place)
    commands.must("split", "digits", "--val-fraction", "0.2")
    commands.must("train-old", *SHORT)
    commands.must("train-ref", *SHORT, "--seed", "1")
    commands.must("train-baseline", "no-treatment", *SHORT)
    commands.must("train-mpt", "--k", "1", *SHORT)
    weights = torch.load(place / "runs/mpt-kl/best.pt", weights_only=True)["model"]
    torch.save(weights, place / "weights.pt")


TEXTS = {
    "file": "a file, and no folder",
    "digits.txt": "".join(f"{label}\n" for label in range(10)),
    "two.txt": "class2\nclass0\n",
    "strangers.txt": "class2\nzebra\n",
    "nothing.csv": "a,b\n1,2\n",
    "missing.csv": (
        "path,label,split\nphotos/train/class0/00.jpg,a,train\nphotos/train/class0/01.jpg,a,train\n"
        "photos/train/class1/01.jpg,b,train\nphotos/gone.jpg,b,train\nphotos/val/class1/01.jpg,b,test\n"
        "photos/val/class0/01.jpg,a,test\n"
    ),
    "labels.txt": "class0 ant\nclass1 bee\nclass2 cat\nclass3 dog\n",
    "wide.yaml": "limits: {max_nfr: 50}\n",
    "hound.yaml": "dog: hound\n",
    "bad.yaml": "limits: {max_nrf: 2}\n",
    "few.csv": "id,label,pred\na,ant,ant\nb,bee,bee\n",
    "twice.csv": "id,label,pred\na,ant,ant\na,bee,bee\n",
    "nolabel.csv": "id,pred\na,ant\n",
    "study.yaml": (
        "description: tiny\nsplit: {source: digits}\nrecipe: digits\n"
        "set: {optim.max_steps: 2, runtime.device: cpu, runtime.threads: 1}\n"
        "updates: [no-treatment, mpt-kl]\nseeds: [1]\n"
    ),
    "costly.yaml": (
        "description: tiny\nsplit: {source: digits}\nrecipe: digits\ncost: 2\n"
        "set: {optim.max_steps: 4, runtime.device: cpu, runtime.threads: 1}\nupdates:\n"
        "  - {name: plain-old, method: no-treatment, init: old}\n"
        "  - {name: plain-longer, method: no-treatment, init: old, longer: true}\n  - mpt-kl\n"
    ),
    "wrong_study.yaml": "description: tiny\nsplit: {source: digits}\nrecipe: digits\nupdates: [mpt-kk]\n",
    "recipe.yaml": (
        "data: {image_size: 8, augment: none}\nmodel: {arch: digits-net}\n"
        "optim: {max_steps: 2}\nruntime: {device: cpu, threads: 1}\n"
    ),
}


@pytest.fixture
def place(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for one test, which is its working folder; its name is the same for all.

    Its files are links, a tenth of the time of copies, since commands put a new file in an old one's place; what a
    command or a test changes where it stands would change for all tests, and is an error.
    """
    place = tmp_path / "place"
    shutil.copytree(prepared, place, copy_function=os.link)
    monkeypatch.chdir(place)
    before = _as_they_are(prepared)
    yield place
    assert _as_they_are(prepared) == before, "a file was changed in place, and so for all tests"


def _as_they_are(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of all files."""
    return {file.path: (file.stat().st_size, file.stat().st_mtime_ns) for file in files_below(folder)}
