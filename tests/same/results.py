"""What commands that read predictions and runs print and write: JSON, tables, copies of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.same.command import HERE, Commands, digest
from tests.same.inputs import make_predictions

FILES = ("evaluate", "old.npz")
# Comparisons of files: what evaluate is given beside old.npz.
COMPARISONS: dict[str, tuple[str, ...]] = {
    "npz": ("new.npz",),
    "csv": ("new.csv", "--max-nfr", "5"),
    "parquet": ("new.parquet", "--max-nfr", "1", "--confidence", "0.95"),
    "undecided": ("new.npz", "--max-nfr", "12", "--confidence", "0.95"),
    "slices": (
        "new.npz",
        "--by",
        "country",
        "--by",
        "class",
        "--metadata",
        "meta.parquet",
        "--min-slice",
        "20",
    ),
    "crossed": ("new.npz", "--metadata", "meta.parquet", "--by", "country,class", "--by", "confidence"),
    "gate": ("new.csv", "--gate", "gate.yaml"),
    "mapped": ("new.csv", "--class-map", "map.yaml"),
    "old classes": ("new.npz", "--old-classes", "all"),
    "several": ("new.npz", "new.csv", "--max-nfr", "5"),
    "itself": ("old.npz", "--max-nfr", "5"),
    "nothing there": ("gone.npz",),
}
STUDY = """
description: tiny
split: {source: digits}
recipe: digits
set: {optim.max_steps: 20, runtime.device: cpu, runtime.threads: 1}
updates: [no-treatment, mpt-kl, mpt-lm]
seeds: [1, 2]
"""


def write_evaluations(commands: Commands) -> dict[str, Any]:
    """Compare files of predictions, and the runs that were trained."""
    make_predictions(commands.folder)
    found = {name: commands.run(*FILES, *words, "--json") for name, words in COMPARISONS.items()}
    written = ("--flips", "flips.csv", "--markdown", "flips.md", "--junit", "gate.xml", "--max-nfr", "5")
    found["files"] = commands.run(*FILES, "new.csv", *written)
    found |= {path: commands.text(path) for path in ("flips.csv", "flips.md")}
    found["one model"] = commands.run("evaluate", "new.npz", "--json")
    cpu = ("--device", "cpu", "--json")
    found["runs"] = commands.run("evaluate", "old", "mpt-kl", "no-treatment", "--by", "class", *cpu)
    found["run alone"] = commands.run("evaluate", "mpt-kl", "--temperature", "fit", *cpu)
    saved = ("--save-predictions", "saved", "--device", "cpu", "--json")
    found["saved"] = commands.run("evaluate", "old", "mpt-lm", *saved)
    found["saved, read"] = commands.run("evaluate", "saved/old.npz", "saved/new.npz", "--json")
    return found


def write_tables(commands: Commands) -> dict[str, Any]:
    """A study of two seeds, its comparisons, and a search for k."""
    (commands.folder / "tiny.yaml").write_text(STUDY, encoding="utf-8")
    found: dict[str, Any] = {
        "dry run": commands.run("study", "tiny.yaml", "--parallel", "1", "--dry-run", "--json")
    }
    found["study"] = commands.run("study", "tiny.yaml", "--parallel", "1", "--json")
    for name, words in {
        "compare": (),
        "compare val": ("--part", "val"),
        "compare equal error": ("--equal-error", "mpt-kl", "--against", "mpt-kl"),
    }.items():
        found[name] = commands.run("compare", "runs/tiny", *words, "--json")
    found["compare files"] = commands.run(
        "compare", "runs/tiny", "--csv", "t.csv", "--latex", "t.tex", "--markdown", "t.md"
    )
    found |= {path: commands.text(path) for path in ("t.csv", "t.tex", "t.md")}
    found["runs by name"] = commands.run("compare", "no-treatment", "mpt-kl", "--json")
    search = ("--k", "0,2", "--distance", "kl", "--max-er-increase", "100", "--max-concurrent", "1")
    found["tune"] = commands.run("tune", *search, "--set", "optim.max_steps=10", *HERE, "--json")
    found["best recipe"] = commands.text("runs/tune/best.yaml")
    found["runs"] = commands.run("runs", "--json")
    return found


def write_releases(commands: Commands) -> dict[str, Any]:
    """Shifted models, predictions without labels, imported weights, copies of pictures, episodes."""
    cpu = ("--device", "cpu", "--json")
    found: dict[str, Any] = {
        "adjust budget": commands.run(
            "adjust", "mpt-kl", "--old", "old", "--max-nfr", "25", "--name", "kept", *cpu
        ),
        "adjust error": commands.run(
            "adjust", "no-treatment", "--old", "old", "--max-er-increase", "2", *cpu
        ),
        "adjust too little": commands.run("adjust", "mpt-lm", "--old", "old", "--max-nfr", "0.01", *cpu),
        "adjust temperature": commands.run("adjust", "mpt-lm", "--temperature", *cpu),
        "evaluate adjusted": commands.run("evaluate", "old", "kept", *cpu),
        "fewshot": commands.run("fewshot", "old", "--way", "4", "--shot", "2", "--episodes", "30", *cpu),
    }
    found["predict"] = commands.run("predict", "mpt-kl", "photos", "--out", "answers.csv", "--device", "cpu")
    found["predicted"] = commands.text("answers.csv")
    commands.must("predict", "mpt-kl", "photos", "--out", "answers.npz", "--device", "cpu")
    with np.load(commands.folder / "answers.npz") as arrays:
        found["predicted arrays"] = {name: digest(arrays[name].tobytes()) for name in arrays.files}
    names = commands.folder / "names.txt"
    names.write_text("".join(f"{label}\n" for label in range(10)))
    words = ("runs/mpt-kl/best.pt", "--arch", "digits-net", "--class-names", names, "--name", "imported")
    found["import"] = commands.run("import", *words)
    found["evaluate imported"] = commands.run("evaluate", "old", "imported", *cpu)
    for source, words in {
        "photos": ("photos", "--short-side", "16"),
        "photos as shards": ("photos", "--to", "shards"),
        "table.csv": ("table.csv", "--column=path=file", "--column=label=kind", "--column=split=part"),
        "shards": ("shards/{0..2}.tar", "--short-side", "20"),
        "parquet": ("parquet/*.parquet",),
    }.items():
        copy = f"copy of {source}"
        found[copy] = commands.run("pack", words[0], copy, *words[1:], "--json")
        found[f"files of {copy}"] = _contents(commands.folder / copy)
    return found


def _contents(folder: Path) -> dict[str, str]:
    """A digest of each file below a folder, without what the copy keeps for itself."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): digest(path.read_bytes()) for path in found}
