"""What each row of the tables in `tests/acceptance` prints and writes, which reads predictions, runs and pictures."""

from __future__ import annotations

import contextlib
import shlex
import shutil
from typing import Any

from tests.acceptance import test_evaluate, test_release, test_split_and_pack, test_tables, test_training
from tests.acceptance.conftest import prepare
from tests.common import files_below
from tests.same.command import Commands

ROWS = (
    *test_evaluate.COMPARISONS, *test_evaluate.SLICES, *test_evaluate.FEW_LABELS, *test_evaluate.OTHERS,
    *test_release.CASES, *test_split_and_pack.SPLITS, *test_split_and_pack.COPIES, *test_tables.CASES,
    *test_training.TRAININGS,
)  # fmt: skip
# Ends of the names of written files that are text without times.
TEXTS = (".csv", ".md", ".tex", ".yaml")


def write_accepted(commands: Commands) -> dict[str, Any]:
    """Run each row in a copy of the folder that they are prepared for; return what it printed, and text that it wrote."""
    prepared, found = commands.folder / "prepared", {}
    prepare(prepared)
    for case in ROWS:
        here = Commands(commands.folder / "accepted")
        shutil.copytree(prepared, here.folder)
        if case.before is not None:
            with contextlib.chdir(here.folder):
                case.before(here.folder)
        there = {file.path for file in files_below(here.folder)}
        result = here.run(*shlex.split(case.line))
        names = [
            file.path.removeprefix(f"{here.folder}/")
            for file in files_below(here.folder)
            if file.path not in there
        ]
        texts = {name: here.text(name) for name in sorted(names) if name.endswith(TEXTS)}
        found[f"{case} {case.named}"] = {**result, "files": sorted(names), "texts": texts}
        shutil.rmtree(here.folder)
    return found
