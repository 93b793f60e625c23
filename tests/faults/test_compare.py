"""Row 56: one run under two names, seeds or thread counts is one run of a comparison."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from mptctl.studies.compare import compare_runs
from tests.common import CommandLine
from tests.studies.made_runs import CLASSES, made_run, made_seed, random_part


def again(root: Path, name: str, seed: int, strength: float, threads: int = 1, **keys: object) -> None:
    """The same training once more: other threads, and so other last digits of its logits."""
    rng = np.random.default_rng(seed)
    label = np.random.default_rng(1).integers(CLASSES, size=400)
    part = random_part(rng, label, strength)
    made_run(root / name, "mpt-kl", 1, part, part, refs=1, settings={"runtime.threads": threads}, **keys)  # type: ignore[arg-type]


def test_row_56_one_run_under_another_name_seed_or_thread_count_is_counted_once(
    tmp_path: Path, mptctl: CommandLine
) -> None:
    made_seed(tmp_path / "1", 1, {"mpt-kl": 2.0})
    shutil.copytree(tmp_path / "1" / "mpt-kl", tmp_path / "1" / "another-name")
    # Equal weights of another seed have another digest, which covers what a checkpoint says of itself.
    made_seed(tmp_path / "2", 1, {"mpt-kl": 2.0}, digest="x", settings={"runtime.seed": 2})
    again(tmp_path / "1", "other-threads", 7, 2.0, threads=2)
    rows = json.loads(mptctl("compare", tmp_path, "--json").stdout)
    (row,) = rows["rows"]
    assert (row["name"], row["seeds"], row["runs"]) == (
        "another-name", [1], [str(tmp_path / "1" / "another-name")]
    )  # fmt: skip
    said = sorted(note.split("left out: ")[1] for note in rows["notes"] if "left out" in note)
    wanted = (
        "has the weights of",
        "is the model of",
        "is the same training (split, seed, settings, teachers) as",
    )
    for note, what in zip(said, wanted, strict=True):
        assert note.startswith(what)


def test_row_56_runs_that_differ_in_keys_of_speed_alone_are_seeds_of_one_row(tmp_path: Path) -> None:
    made_seed(tmp_path / "1", 1, {"mpt-kl": 2.0}, settings={"runtime.threads": 1, "data.loader": "threaded"})
    made_seed(tmp_path / "2", 2, {"mpt-kl": 2.0}, settings={"runtime.threads": 3, "data.threads": 2})
    (row,) = compare_runs([tmp_path]).rows
    assert row.seeds == [1, 2]


def test_row_56_two_trainings_of_one_seed_with_other_references_are_two_rows(tmp_path: Path) -> None:
    for root in ("a", "b"):
        made_seed(tmp_path / root, 1, {})
        again(tmp_path / root, "mpt-kl", ord(root), 2.0, ref=root, digest=root, old_digest="old-1")
    rows = compare_runs([tmp_path]).rows
    assert [(row.name, row.seeds) for row in rows] == [("mpt-kl (a)", [1]), ("mpt-kl (b)", [1])]
