"""Names of the files that mptctl keeps in folders of its own, as patterns."""

from __future__ import annotations

from fnmatch import fnmatchcase

RUN_FILES = (
    "best.pt", "last.pt", "previous.pt", "nonfinite.pt", "recipe.yaml", "split.json", "metrics.jsonl",
    "environment.json", "trackers.json", "answers.npz", "adjust.svg", "manifest-*.npz",
)  # fmt: skip
SEARCH_FILES = ("best.yaml", "trials.json", "tune.png", "tune.html")
SPLIT_FILES = ("split.json", "manifest.npz", "manifest-*.npz")
# Of a run that `study --results` keeps, beside those that have the names of a run's.
RESULT_FILES = ("metrics.jsonl.gz",)
PACK_FILES = ("pack.json", "pack-files.jsonl")

KEPT_FILES = tuple(dict.fromkeys((*RUN_FILES, *SEARCH_FILES, *SPLIT_FILES, *RESULT_FILES, *PACK_FILES)))


def is_kept(name: str) -> bool:
    """Tell whether mptctl keeps a file of that name in a folder of its own."""
    return any(fnmatchcase(name, pattern) for pattern in KEPT_FILES)
