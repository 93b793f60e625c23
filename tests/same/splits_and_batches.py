"""Splits of six sources, and batches that each loader makes of them. What stands here knows rooms of the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split, load_split
from mptctl.names import Part
from mptctl.recipe import load_recipe
from tests.same.command import Commands, digest
from tests.same.inputs import make_sources

BATCH, BATCHES, SIDE = 8, 2, 20
PARTS: tuple[Part, ...] = ("train", "val", "test")
# Recipes whose batches are written, by name: words of --set, and the loaders that serve them here.
PREPARED = {
    "crop": (("data.augment=random-resized-crop", "data.flip=true"), ("threaded", "dali")),
    "drawn": (
        ("data.augment=pad-crop", "data.padding=2", "data.flip=true", "data.mixup=0.4", "data.cutmix=1.0",
         "data.transforms=[{name: rand-augment, num_ops: 2, magnitude: 9}, {name: random-erasing, p: 0.5}]"),
        ("threaded", "resident"),
    ),
    "balanced": (("data.augment=none", "data.sampling=balanced"), ("resident",)),
}  # fmt: skip


def write_splits(commands: Commands) -> dict[str, Any]:
    """Split each source; return what `split --json` prints, the split's rows, and what is refused."""
    found: dict[str, Any] = {}
    sources = make_sources(commands.folder)
    for name, words in sources.items():
        printed = commands.must("split", *words, "--run-root", f"of-{name}", "--json")
        split = load_split(commands.folder / f"of-{name}")
        found[name] = {"printed": printed["out"], "fingerprint": split.fingerprint, "rows": _rows(split)}
    old_classes = commands.folder / "old.txt"
    old_classes.write_text("class2\nclass0\n")
    given = [*sources["imagefolder"], "--old-classes", old_classes, "--run-root", "of-named", "--json"]
    found["old classes by name"] = commands.must("split", *given)["out"]
    found["kept"] = commands.run("split", "digits", "--run-root", "of-digits", "--json")
    found["refused"] = commands.run("split", "characters", "--run-root", "of-digits", "--json")
    return found


def write_batches(commands: Commands) -> dict[str, Any]:
    """Batches of every source by every loader, in training, from a later step and in evaluation."""
    found: dict[str, Any] = {}
    for source in ("digits", "imagefolder", "table-grouped", "shards"):
        split = load_split(commands.folder / f"of-{source}")
        for recipe, (overrides, loaders) in PREPARED.items():
            for loader in loaders:
                if loader == "dali" and source == "digits":
                    continue
                words = (*overrides, f"data.image_size={SIDE}", f"data.loader={loader}", "data.threads=1")
                if loader == "dali":  # it declines pictures whose edges are seen
                    words += (f"data.eval_resize={SIDE + 4}",)
                found[f"{source}, {recipe}, {loader}"] = _batches(split, words, commands.folder / "decoded")
    return found


def _rows(split: Split) -> dict[str, Any]:
    """A digest of ids, labels and parts of all rows; of few rows, also each of them."""
    parts = np.full(len(split.labels), "none")
    for part in PARTS:
        parts[split.indices(part)] = part
    ids = split.ids(np.arange(len(split.labels)))
    rows = [f"{name} {label} {part}" for name, label, part in zip(ids, split.labels, parts, strict=True)]
    return {"digest": digest("\n".join(rows).encode()), "each": rows if len(rows) < 100 else len(rows)}


def _batches(split: Split, overrides: tuple[str, ...], decoded: Path) -> dict[str, Any]:
    """The first batches of two training epochs, the second from its second step, and of the validation part."""
    data = load_recipe("digits", overrides, {}).data
    found = {}
    for name, part, train, epoch, start in (
        ("epoch 1", "train", True, 0, 0),
        ("epoch 2 from step 2", "train", True, 1, 1),
        ("validation", "val", False, 0, 0),
    ):
        plan = LoadPlan(split, data, part, BATCH, seed=3, train=train, device=torch.device("cpu"))  # type: ignore[arg-type]
        loader = make_loader(plan, decoded)
        lines = []
        for batch, _ in zip(loader.epoch(epoch, start), range(BATCHES), strict=False):
            mixed = [] if batch.mixing is None else [tensor.tolist() for tensor in batch.mixing]
            pixels = digest(batch.images.contiguous().numpy().tobytes())
            lines.append({"rows": batch.index.tolist(), "labels": batch.labels.tolist(), "mixed": mixed,
                          "mean": batch.images.mean().item(), "pixels": pixels})  # fmt: skip
        loader.close()
        found[name] = lines
    return found
