"""Sound inputs of every kind, from one generator and two short trainings; what is fuzzed is a copy of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet

from mptctl.data.split import Split, make_split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import make_folder, short_recipe
from tests.faults.process import run_forked

GATE = """\
limits: {max_nfr: 50, max_lost: 60, max_er_increase: 20}
confidence: 0.95
slices: [{by: {site: north}, max_nfr: 70}]
must_keep: {ids: [s03], file: must_keep.txt, by: {site: south}}
waivers: [{id: s01, reason: a blurred picture, owner: ann, expires: 2030-01-31}]
"""
STUDY = """\
description: two updates of the digits
split: {source: digits}
recipe: digits
set: {optim.epochs: 1, optim.max_steps: 2, runtime.device: cpu}
updates:
  - no-treatment
  - {name: mpt-k2, method: mpt-kl, set: {method.k: 2.0}}
seeds: [0]
"""
RECIPE = """\
data: {image_size: 8, mean: [0.5, 0.5, 0.5], std: [0.3, 0.3, 0.3], augment: pad-crop, padding: 1}
model: {arch: digits-net}
optim: {lr: 0.1, momentum: 0.9, epochs: 2, batch_size: 64, schedule: cosine}
method: {k: 1.5, beta: 5.0, tau: 5.0}
runtime: {device: cpu, seed: 3}
"""


def make_inputs(root: Path) -> None:
    """Write everything that a target names into a folder that is there."""
    _predictions(root)
    (root / "gate.yaml").write_text(GATE, encoding="utf-8")
    (root / "must_keep.txt").write_text("s02\ns03\n", encoding="utf-8")
    (root / "study.yaml").write_text(STUDY, encoding="utf-8")
    (root / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    (root / "map.yaml").write_text("cat: cat\ndog: [dog]\nbird: bird\n", encoding="utf-8")
    (root / "old_classes.txt").write_text("cat\ndog\n", encoding="utf-8")
    runs = root / "runs"
    split = make_split("digits", run_root=runs)
    for name in ("old", "ref"):
        _train(split, name)
    state = load_checkpoint(runs / "ref" / "best.pt").model
    torch.save(state, root / "weights.pth")
    (root / "names.txt").write_text("\n".join(split.classes.names), encoding="utf-8")
    pictures = make_folder(root / "pictures", classes=3, train=40, val=2, size=8)
    folder = make_split("imagefolder", run_root=root / "folder", data_root=pictures, val_fraction=0.2)
    _train(folder, "old")


def _train(split: Split, name: str) -> None:
    recipe = short_recipe("optim.batch_size=4", "optim.epochs=1", "optim.max_steps=2")
    folder = split.run_root / name
    train(RunRequest(recipe, split, folder, only_old_classes=name == "old"), Observer())


def _predictions(root: Path) -> None:
    rng = np.random.default_rng(0)
    classes = np.array(["cat", "dog", "bird"])
    labels = classes[np.arange(40) % 3]
    ids = np.array([f"s{i:02}" for i in range(40)])
    for name, known in (("old", 2), ("new", 3)):
        logits = rng.normal(size=(40, known)).astype(np.float32)
        logits[np.arange(40), np.minimum(np.arange(40) % 3, known - 1)] += 2
        preds = classes[logits.argmax(1)]
        np.savez(root / f"{name}.npz", id=ids, label=labels, logits=logits, classes=classes[:known])
        table = pa.table({"id": ids, "label": labels, "pred": preds, "conf": logits.max(1)})
        parquet.write_table(table, root / f"{name}.parquet")
        rows = [f"{i},{label},{pred}" for i, label, pred in zip(ids, labels, preds, strict=True)]
        (root / f"{name}.csv").write_text("\n".join(["id,label,pred", *rows]) + "\n", encoding="utf-8")
    sites = [f"{name},{'north' if i % 4 else 'south'},{1 + i % 3}" for i, name in enumerate(ids)]
    (root / "metadata.csv").write_text("\n".join(["id,site,camera", *sites]) + "\n", encoding="utf-8")
    pair = [root / "old.csv", root / "new.csv"]
    done = run_forked("evaluate", *pair, "--append-history", root / "history.jsonl")
    assert done.returncode == 0, done.stderr
