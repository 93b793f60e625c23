"""What the folder of a search holds, so that nothing else in it is ever removed."""

from __future__ import annotations

import json
from pathlib import Path

from mptctl.models.ownership import RUN, Kind, is_run

# Where a trial that fails for an unexpected reason says so.
ERROR_NAME = "error.txt"
# The first line of best.yaml begins with it.
HEADLINE = "# Chosen by mptctl tune"


def is_search(folder: Path) -> bool:
    """Whether a folder holds a search, of this or an earlier version; ``trials.json`` is the first file of each."""
    try:
        found = json.loads((folder / "trials.json").read_bytes())
        if isinstance(found, dict) and {"search", "trials", "split_fingerprint"} <= found.keys():
            return True
    except (OSError, ValueError, RecursionError):
        pass
    try:
        with open(folder / "best.yaml", "rb") as file:
            return file.readline(len(HEADLINE)) == HEADLINE.encode()
    except OSError:
        return False


def is_trial(folder: Path) -> bool:
    """Whether a folder among the trials was written by one, also by one that failed before it began."""
    return {item.name for item in RUN.contents(folder)} <= {ERROR_NAME} or is_run(folder)


TRIAL = Kind("trial", files=(*RUN.files, ERROR_NAME), folders=RUN.folders, marked=is_trial)
# Ray is told to call its experiment so, and everything that it writes is below.
RAY = Kind("Ray's folder", folders={"search": Kind("experiment", whole=True)})
SEARCH = Kind(
    "search",
    files=("best.yaml", "trials.json", "tune.png", "tune.html"),
    folders={"trials": Kind("trials", folders={"*": TRIAL}), "ray": RAY},
    marked=is_search,
)
