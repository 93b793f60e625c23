"""What each row of the tables in `tests/acceptance` prints and writes, which reads predictions, runs and pictures."""

from __future__ import annotations

import contextlib
import shlex
import shutil
from typing import Any

from tests.acceptance import test_evaluate, test_release, test_split_and_pack, test_tables, test_training
from tests.acceptance.cases import CACHES
from tests.acceptance.conftest import prepare
from tests.common import files_below
from tests.same.command import Commands, digest

ROWS = (
    *test_evaluate.COMPARISONS, *test_evaluate.SLICES, *test_evaluate.FEW_LABELS, *test_evaluate.OTHERS,
    *test_release.CASES, *test_split_and_pack.SPLITS, *test_split_and_pack.COPIES, *test_tables.CASES,
    *test_training.TRAININGS,
)  # fmt: skip
# Commands whose text, which is no JSON, holds no times; and ends of the names of files that hold none.
TIMELESS = ("evaluate", "disagree", "compare", "recipes")
TEXTS, BYTES = (".csv", ".md", ".tex"), (".jpg", ".npz")


def write_accepted(commands: Commands) -> dict[str, Any]:
    """Run each row in a copy of the folder that they are prepared for; return what it printed and wrote."""
    prepared, found = commands.folder / "prepared", {}
    prepare(prepared)
    for case in ROWS:
        words = shlex.split(case.line)
        if words[0] == "doctor":  # says what is free at this moment
            continue
        here = Commands(commands.folder / "accepted")
        shutil.copytree(prepared, here.folder)
        if case.before is not None:
            with contextlib.chdir(here.folder):
                case.before(here.folder)
        there = {file.path for file in files_below(here.folder)}
        result = here.run(*words)
        if "--json" not in words and words[0] not in TIMELESS:
            del result["out"]
        # Kept predictions of a run hold the time of its checkpoint.
        left = [file.path for file in files_below(here.folder) if file.name not in CACHES]
        made = [path for path in left if path not in there]
        names = sorted(path.removeprefix(f"{here.folder}/") for path in made)
        result["texts"] = {name: here.text(name) for name in names if name.endswith(TEXTS)}
        files = {name: here.folder / name for name in names if name.endswith(BYTES)}
        result["files"] = {name: digest(path.read_bytes()) for name, path in files.items()}
        found[f"{case} {case.named}"] = result
        shutil.rmtree(here.folder)
    return found
