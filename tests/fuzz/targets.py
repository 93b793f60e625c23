"""What is damaged, and which command lines read it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.fuzz.mutations import ODD


@dataclass(frozen=True)
class Target:
    """One kind of input.

    Attributes:
        file: that is damaged, below the folder of inputs; "" where the command line itself is.
        commands: that read it, of which each case runs one.
        share: of the cases, relative to the others.
    """

    file: str
    commands: tuple[str, ...]
    share: int = 4


DRY = "train-ref --run-root {root} --dry-run --set runtime.device=cpu"
TARGETS = (
    *(
        Target(f"{side}{form}", (f"evaluate old{form} new{form}", f"evaluate old{form} new{form} --json"))
        for side in ("old", "new")
        for form in (".npz", ".csv", ".parquet")
    ),
    Target("new.parquet", ("evaluate old.csv new.parquet --by conf",)),
    Target("metadata.csv", ("evaluate old.csv new.csv --metadata metadata.csv --by site",)),
    Target("gate.yaml", ("evaluate old.csv new.csv --metadata metadata.csv --gate gate.yaml",)),
    Target("must_keep.txt", ("evaluate old.csv new.csv --metadata metadata.csv --gate gate.yaml",), 1),
    Target("map.yaml", ("evaluate old.csv new.csv --class-map map.yaml",), 2),
    Target("old_classes.txt", ("evaluate old.csv new.csv --old-classes old_classes.txt",), 1),
    Target(
        "history.jsonl", ("history history.jsonl", "evaluate old.csv new.csv --append-history history.jsonl")
    ),
    Target("study.yaml", ("study study.yaml --dry-run --run-root studied",)),
    Target("recipe.yaml", (DRY.format(root="runs") + " --name x --recipe recipe.yaml",), 6),
    Target(
        "runs/split.json", (DRY.format(root="runs") + " --name x --recipe digits", "runs --run-root runs")
    ),
    Target("folder/split.json", (DRY.format(root="folder") + " --name x --recipe digits",)),
    Target("folder/split-", (DRY.format(root="folder") + " --name x --recipe digits",)),
    Target(
        "runs/old/best.pt",
        (
            "evaluate runs/old/best.pt runs/ref/best.pt --run-root runs --allow-unfinished --device cpu",
            "train-mpt --run-root runs --name x --recipe digits --dry-run --set runtime.device=cpu",
            "runs --run-root runs",
        ),
        6,
    ),
    Target(
        "runs/ref/last.pt",
        (
            "train-ref --run-root runs --name ref --resume --dry-run",
            "evaluate runs/old/best.pt runs/ref/last.pt --run-root runs --allow-unfinished --device cpu",
        ),
    ),
    *(
        Target(
            f"runs/ref/{name}",
            ("runs --run-root runs", "train-ref --run-root runs --name ref --resume --dry-run"),
            2,
        )
        for name in ("metrics.jsonl", "recipe.yaml", "split.json")
    ),
    Target(
        "weights.pth",
        (
            "import weights.pth --arch digits-net --class-names names.txt --name x --run-root runs --recipe digits",
        ),
    ),
    Target(
        "names.txt",
        ("import weights.pth --arch digits-net --class-names names.txt --name x --run-root runs",),
        1,
    ),
    Target("", (), 12),
)

VERBS = (
    "evaluate old.csv new.csv", "evaluate old.npz new.npz", "evaluate runs/old runs/ref", "history history.jsonl",
    "compare runs", "runs", "recipes", "recipes digits", "doctor", "gate init old.csv new.csv",
    "predict runs/ref pictures", "split digits --run-root made", "study study.yaml --dry-run",
    "split imagefolder --data-root pictures --run-root made", "train-old --dry-run", "train-ref --dry-run",
    "train-mpt --dry-run", "train-baseline --dry-run", "train-ensemble --dry-run", "tune --dry-run",
    "adjust ref --old old", "export ref", "fewshot ref", "figure embedding ref", "bench",
    "quickstart --help", "nothing", "",
)  # fmt: skip
FLAGS = (
    "--run-root", "--max-nfr", "--max-lost", "--confidence", "--gate", "--by", "--metadata", "--report",
    "--json", "--full", "--memory-limit", "--device", "--recipe", "--set", "--k", "--distance", "--method",
    "--name", "--seed", "--seeds", "--old", "--ref", "--out", "--format", "--junit", "--markdown",
    "--min-slice", "--temperature", "--old-classes", "--class-map", "--looks", "--val-fraction",
    "--old-fraction", "--data-root", "--resume", "--overwrite", "--epochs", "--html", "--help", "--debug", "-h", "--",
)  # fmt: skip
VALUES = (
    "runs", "folder", "old.csv", "new.npz", "gate.yaml", "digits", "mpt-kl", "kl", "1.5", "0.95", "optim.lr=0.1",
    "method.k=2", "optim.epochs=0", "data.image_size=8", "model.arch=resnet18", "runtime.device=cuda", "cpu", "1GB",
    "site", "camera", "/dev/null", "/dev/full", ".", "..", "nowhere/x.html", "page.html",
)  # fmt: skip


def command_line(rng: random.Random) -> list[str]:
    """A verb with flags and values drawn at random; an argument holds neither NUL nor half a surrogate pair."""
    words = rng.choice(VERBS).split()
    for _ in range(rng.choice([0, 1, 1, 2, 3, 6])):
        here = rng.randrange(len(words) + 1) if rng.random() < 0.1 else len(words)
        odd = [str(value) for value in ODD if "\x00" not in str(value) and "\ud800" not in str(value)]
        value = rng.choice(VALUES) if rng.random() < 0.6 else rng.choice(odd)
        if rng.random() < 0.1:
            value = f"{rng.choice(VALUES[10:16]).partition('=')[0]}={value}"
        words[here:here] = [rng.choice(FLAGS), value] if rng.random() < 0.8 else [value]
    return words
