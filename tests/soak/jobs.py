"""What is killed: a split, a packing, a training with a cache, a comparison with its page, a study, and a search."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mptctl.data.split import make_split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import make_folder, short_recipe

STUDY = """\
description: two updates of the digits
split: {source: digits}
recipe: digits
set: {optim.epochs: 2, runtime.device: cpu, runtime.checkpoint_every_steps: 3}
updates: [no-treatment, {method: mpt-kl, set: {method.k: 1}}]
"""
HERE = ["--run-root", "runs"]
COMPARE = "evaluate old ref --run-root runs --device cpu --json --report page.html --save-predictions kept"
TRAINED = ["--device", "cpu", "--set", "runtime.threads=1", "--set", "runtime.checkpoint_every_steps=2"]


@dataclass(frozen=True)
class Job:
    """One command, how it goes on, and what it leaves.

    Attributes:
        name: of the job.
        prepare: fills the folder in which it runs.
        words: of its next start, from what lies in the folder.
        result: what has to be the same whether it was killed or not, from the folder and the standard output.
        share: of the kills, relative to the others.
    """

    name: str
    prepare: Callable[[Path], None]
    words: Callable[[Path], list[str]]
    result: Callable[[Path, str], Any]
    share: int = 1


def two_models(folder: Path) -> None:
    """A run root in the folder, with an old model and a reference of the digits."""
    split = make_split("digits", run_root=folder / "runs")
    for name in ("old", "ref"):
        request = RunRequest(short_recipe(), split, folder / "runs" / name, only_old_classes=name == "old")
        train(request, Observer())


def _study(folder: Path) -> None:
    (folder / "small.yaml").write_text(STUDY, encoding="utf-8")


def _pictures(folder: Path) -> None:
    make_folder(folder / "pictures", classes=4, train=300, val=100, size=8)


def _large_pictures(folder: Path) -> None:
    make_folder(folder / "pictures", classes=4, train=60, val=20, size=300)


def _copy(folder: Path) -> dict[str, str]:
    files = [path for path in (folder / "small").rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _training(folder: Path) -> list[str]:
    run = folder / "runs" / "new"
    again = ["--resume"] if (run / "last.pt").exists() else ["--overwrite"] if run.exists() else []
    how = ["--distance", "kl", "--k", "1.5", "--cache-teachers", "--set", "optim.epochs=3", *TRAINED]
    return ["train-mpt", *HERE, "--name", "new", *how, *again]


def _search(folder: Path) -> list[str]:
    how = ["--k", "0,2", "--max-concurrent", "1", "--max-er-increase", "90", "--set", "optim.epochs=2"]
    search = folder / "runs" / "tune"
    again = ["--resume"] if (search / "trials.json").exists() else ["--overwrite"] if search.exists() else []
    return ["tune", "--json", *HERE, "--set", "runtime.device=cpu", *how, *again]


def weights(*runs: Path) -> dict[str, str]:
    """A digest of the weights and figures of each checkpoint."""
    found = {}
    for path in (run / name for run in runs for name in ("best.pt", "last.pt")):
        checkpoint = load_checkpoint(path)
        content = hashlib.sha256()
        for name, value in sorted(checkpoint.model.items()):
            content.update(name.encode() + value.numpy().tobytes())
        found[f"{path.parent.name}/{path.name}"] = (
            f"{content.hexdigest()} {checkpoint.meta.global_step} {checkpoint.meta.metrics}"
        )
    return found


def _compared(folder: Path, printed: str) -> Any:
    arrays = {}
    for name in ("old", "new"):
        with np.load(folder / "kept" / f"{name}.npz") as file:
            arrays[name] = {key: file[key].tolist() for key in file.files}
    page = (folder / "page.html").read_text(encoding="utf-8")
    return arrays, json.loads(printed), re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?", "", page)


def _without_times(printed: str) -> Any:
    return re.sub(r'"(seconds\w*|date)": ?[^,}]*', "", printed)


def _split_files(folder: Path) -> dict[str, str]:
    files = [folder / "runs" / "split.json", *(folder / "runs").glob("split-*.arrow")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


JOBS = (
    Job(
        "split",
        _pictures,
        lambda folder: ["split", "imagefolder", "--data-root", "pictures", *HERE],
        lambda folder, printed: _split_files(folder),
    ),
    Job(
        "pack",
        _large_pictures,
        lambda folder: ["pack", "pictures", "small", "--short-side", "90"],
        lambda folder, printed: _copy(folder),
    ),
    Job("train", two_models, _training, lambda folder, printed: weights(folder / "runs" / "new"), 3),
    Job("evaluate", two_models, lambda folder: COMPARE.split(), _compared, 2),
    Job(
        "study",
        _study,
        lambda folder: ["study", "small.yaml", *HERE, "--seeds", "3", "--json"],
        lambda folder, printed: (
            _without_times(printed),
            weights(*(folder / "runs" / "3" / name for name in ("old", "ref", "no-treatment", "mpt-kl"))),
        ),
        2,
    ),
    Job(
        "tune",
        two_models,
        _search,
        lambda folder, printed: weights(
            *(folder / "runs" / "tune" / "trials" / name for name in ("kl-k0", "kl-k2"))
        ),
        2,
    ),
)
