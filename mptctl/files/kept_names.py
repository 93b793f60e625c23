"""Names of the files that mptctl keeps in folders of its own, those of runs, searches, splits and copies."""

from __future__ import annotations

from fnmatch import fnmatchcase

RUN_FILES = (
    "best.pt", "last.pt", "previous.pt", "nonfinite.pt", "recipe.yaml", "split.json", "metrics.jsonl",
    "environment.json", "trackers.json", "answers.npz", "tuning.json", "split-*.arrow",
    "columns-*.parquet",
)  # fmt: skip
SEARCH_FILES = ("best.yaml", "trials.json", "tune.png", "tune.html")
SPLIT_FILES = ("split.json", "split-*.arrow", "columns-*.parquet")
# Further files of a run in results/, which `tools.keep_results` writes.
RESULT_FILES = ("metrics.jsonl.gz",)
PACK_FILES = ("pack.json", "pack-files.jsonl")

KEPT_FILES = tuple(dict.fromkeys((*RUN_FILES, *SEARCH_FILES, *SPLIT_FILES, *RESULT_FILES, *PACK_FILES)))


def is_kept(name: str) -> bool:
    """Tell whether a name is that of a file in mptctl's own folders, such as those of runs and splits."""
    return any(fnmatchcase(name, pattern) for pattern in KEPT_FILES)
