"""What the folder of a search holds, so that nothing else in it is ever removed."""

from __future__ import annotations

import json
from pathlib import Path

from mptctl.files import write_atomically
from mptctl.files.output_kinds import SEARCH_FILES
from mptctl.models.ownership import RUN, Kind, is_run
from mptctl.tune.tune_report import TuneReport

# Every trial of the search, the choice and what it rests on.
TRIALS_NAME = "trials.json"
# The chosen recipe.
BEST_NAME = "best.yaml"
# Where a trial that fails for an unexpected reason says so.
ERROR_NAME = "error.txt"
# The first line of the chosen recipe begins with it.
HEADLINE = "# Chosen by mptctl tune"


def is_search(folder: Path) -> bool:
    """Whether a folder holds a search, of this or an earlier version; ``trials.json`` is the first file of each."""
    try:
        found = json.loads((folder / TRIALS_NAME).read_bytes())
        if isinstance(found, dict) and {"search", "trials", "split_fingerprint"} <= found.keys():
            return True
    except (OSError, ValueError, RecursionError):
        pass
    try:
        with open(folder / BEST_NAME, "rb") as file:
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
    files=SEARCH_FILES,
    folders={"trials": Kind("trials", folders={"*": TRIAL}), "ray": RAY},
    marked=is_search,
)


def write_report(folder: Path, report: TuneReport) -> None:
    """Write what is known of every trial.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    write_atomically(folder / TRIALS_NAME, (report.model_dump_json(indent=2) + "\n").encode())
