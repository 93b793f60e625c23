"""Whether a tree computes what another does: `python -m tests.same write FOLDER` in each, then `compare A B`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def main() -> int:
    """1 where two folders differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.same", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    writing = actions.add_parser("write", help="compute everything with this tree, and write it")
    writing.add_argument("folder", type=Path)
    comparing = actions.add_parser(
        "compare", help="print every difference of two folders; exit code 1 for any"
    )
    comparing.add_argument("one", type=Path)
    comparing.add_argument("other", type=Path)
    given = parser.parse_args()
    if given.action == "compare":
        from tests.same.differences import differences

        found = list(differences(given.one, given.other))
        print("\n".join(found) or "no difference")
        return 1 if found else 0
    write(given.folder)
    return 0


def write(folder: Path) -> None:
    """Write a JSON file a chapter; each builds on those before it, in one place that is removed at the end."""
    # Processes that commands start import this tree, and compute on one thread as this one does.
    os.environ |= {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "80",
    }
    sys.path.insert(0, str(ROOT / "kernels"))
    warnings.simplefilter("ignore")
    import torch

    from tests.same import results, splits_and_batches, trainings
    from tests.same.command import Commands

    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="same-") as place:
        commands = Commands(Path(place).resolve())
        for chapter in (
            splits_and_batches.write_splits,
            splits_and_batches.write_batches,
            trainings.write_trainings,
            trainings.write_resumed,
            trainings.write_caches,
            results.write_evaluations,
            results.write_tables,
            results.write_releases,
        ):
            began = time.monotonic()
            name = chapter.__name__.removeprefix("write_")
            text = json.dumps(commands.cleaned(chapter(commands)), indent=1, sort_keys=True, default=str)
            (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
            print(f"{name:<12} {time.monotonic() - began:4.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
