"""`split` and `pack`: each form of a source, and each way to be refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.cases import Case, check, cut, written
from tests.common import CommandLine

TABLE = "table.csv --column path=file --column label=kind"
NEW = "--run-root new --json"
SPLIT = ("new/split.json",)

SPLITS = [
    Case(f"split digits {NEW}", files=SPLIT),
    Case(f"split photos {NEW}", files=SPLIT),
    Case(f"split imagefolder --data-root photos {NEW}", files=SPLIT),
    Case(f"split photos --order random --seed 3 --old-fraction 0.75 {NEW}", files=SPLIT),
    Case(f"split photos --old-fraction 1.0 {NEW}", files=SPLIT),
    Case(f"split photos --old-classes two.txt {NEW}", files=SPLIT),
    Case(f"split photos --class-labels labels.txt {NEW}", files=SPLIT),
    Case(f"split photos --on-duplicates quarantine {NEW}", files=SPLIT),
    Case(f"split photos --verify decode {NEW}", files=SPLIT),
    Case(f"split photos --report page.html {NEW}", files=(*SPLIT, "page.html")),
    Case(f"split classes --test-fraction 0.3 {NEW}", files=SPLIT),
    Case(f"split broken --on-bad quarantine {NEW}", files=SPLIT),
    Case(f"split {TABLE} --column split=part {NEW}", files=SPLIT),
    Case(f"split {TABLE} --column id=code --column split=part {NEW}", files=SPLIT),
    Case(f"split {TABLE} --group who --test-fraction 0.3 {NEW}", files=SPLIT),
    Case(f"split 'shards/{{0..2}}.tar' --test-fraction 0.3 {NEW}", files=SPLIT),
    Case(f"split 'shards/*.tar' --source webdataset --test-fraction 0.3 {NEW}", files=SPLIT),
    Case(f"split {TABLE} {NEW}", 4, "classes.txt: holds no name", before=written("classes.txt", "\n")),
    Case("split digits --val-fraction 0.2 --json"),
    Case("split digits --overwrite --json"),
    Case("split dgits", 2, "did you mean digits"),
    Case("split", 2, "SOURCE"),
    Case("split digits", 2, "runs/split.json"),
    Case("split digits --run-root new --old-fraction 1.5", 2, "--old-fraction"),
    Case("split digits --run-root new --old-fraction 0.01", 2, "--old-fraction"),
    Case("split digits --run-root new --val-fraction 1.5", 2, "--val-fraction"),
    Case("split digits --run-root new --test-fraction 0.3", 2, "--test-fraction"),
    Case("split digits --run-root new --order up", 2, "--order"),
    Case("split digits --run-root new --seed -1", 2, "--seed"),
    Case("split photos --run-root new --old-classes gone.txt", 2, "gone.txt"),
    Case("split photos --run-root new --old-classes strangers.txt", 2, "zebra"),
    Case(
        "split photos --run-root new --old-classes two.txt --old-fraction 1.0",
        2,
        "--old-fraction: --old-classes names",
    ),
    Case(
        "split photos --run-root new --old-classes two.txt --old-fraction 0.5",
        2,
        "--old-fraction: --old-classes names",
    ),
    Case(
        "split photos --run-root new --old-classes two.txt --order random",
        2,
        "--order random: --old-classes names",
    ),
    Case("split photos --run-root new --column label=x", 2, "--column: photos is no table"),
    Case("split photos --run-root new --label-key x", 2, "--label-key: photos has no tar shards"),
    Case("split digits --run-root new --class-labels gone.txt", 2, "--class-labels gone.txt: "),
    Case(
        "split digits --run-root new --class-labels a.txt",
        2,
        "--class-labels a.txt: ",
        before=written("a.txt", "0 zero\n0 nought\n"),
    ),
    Case(
        "split digits --run-root new --class-labels a.txt",
        2,
        "--class-labels a.txt: ",
        before=written("a.txt", "0 zero\n7\n"),
    ),
    Case(
        "split digits --run-root new --class-labels a.txt",
        2,
        "none of its 1 ids is a class of the split, such as 0",
        before=written("a.txt", "zero 0\n"),
    ),
    Case("split photos --run-root new --val-fraction 0.99", 4, "no training picture is left of 4 classes"),
    Case("split digits --run-root new --download", 2, "--download"),
    Case("split photos --run-root new --data-root empty", 2, "photos holds the pictures itself"),
    Case("split s3://bucket/train --run-root new", 4, "mptctl pack s3://bucket/train OUT"),
    Case("split '{0..3}.tar' --run-root new", 4, "4 of 4 shards are not there"),
    Case("split photos --run-root new --group who", 2, "--metadata FILE"),
    Case("split photos --run-root new --verify deep", 2, "--verify"),
    Case("split table.csv --run-root new --column path", 2, "--column"),
    Case("split table.csv --run-root new --column colour=kind", 2, "colour"),
    Case("split imagefolder --run-root new", 2, "--data-root"),
    Case("split gone --run-root new", 2, "gone"),
    Case("split photos --run-root new --report photos/train/class0/00.jpg", 2, "--report"),
    Case("split empty --run-root new", 2, "empty"),
    Case("split broken --run-root new", 4, "broken/train/class1/02.jpg"),
    Case("split table.csv --run-root new", 4, "table.csv"),
    Case("split table.csv --column path=file --column label=gone --run-root new", 2, "label=gone"),
    Case("split nothing.csv --run-root new", 4, "nothing.csv"),
    Case("split missing.csv --run-root new", 4, "photos/gone.jpg"),
    Case(
        "split 'shards/*.tar' --test-fraction 0.3 --run-root new",
        4,
        "shards/1.tar",
        before=cut("shards/1.tar", 700),
    ),
    Case("split 'parquet/*.parquet' --run-root new", 4, "pack"),
    Case("split cifar10 --data-root empty --run-root new", 4, "--download"),
    Case("split photos --run-root new --group who --metadata gone.csv", 4, "gone.csv"),
    Case(
        "split photos --run-root new --group who --metadata a.csv",
        4,
        "nearest: whom",
        before=written("a.csv", "id,whom\ntrain/class0/00.jpg,a\n"),
    ),
    Case(
        "split photos --run-root new --group who --metadata a.csv",
        4,
        "lacks 43 of 44 pictures",
        before=written("a.csv", "id,who\ntrain/class0/00.jpg,a\n"),
    ),
    Case("split digits --run-root file/new", 7, "file"),
    Case("split photos --run-root new --report file/page.html", 7, "file"),
]

COPIED = ("copy/train/class0/00.jpg", "copy/val/class3/02.jpg")
COPIES = [
    Case("pack photos copy --json", files=COPIED),
    Case("pack photos copy --short-side 16 --json", files=COPIED),
    Case("pack photos copy --to shards --json", files=("copy",)),
    Case(
        "pack table.csv copy --column path=file --column label=kind --column split=part --json",
        files=("copy",),
    ),
    Case("pack 'shards/{0..2}.tar' copy --json", files=("copy",)),
    Case("pack 'parquet/*.parquet' copy --json", files=("copy",)),
    Case("pack gone copy", 4, "gone"),
    Case("pack photos photos", 2, "photos"),
    Case("pack photos photos/copy --short-side 50", 2, "lies in the other"),
    Case("pack . copy --short-side 9", 2, "lies in the other"),
    Case("pack photos copy --source parket", 2, "did you mean parquet"),
    Case("pack photos copy --source arrow", 4, "state.json: cannot be read"),
    Case("pack photos copy --column label", 2, "write ROLE=NAME"),
    Case("pack photos copy --column rank=x", 2, "write ROLE=NAME"),
    Case("pack photos/train/class0 copy", 4, "nothing that is read lies there"),
    Case("pack photos runs", 2, "runs: is not empty"),
    Case("pack photos file", 2, "file: is not a folder"),
    Case("pack photos copy --short-side 0", 2, "--short-side"),
    Case("pack photos copy --to zip", 2, "--to"),
    Case("pack photos", 2, "OUT"),
    Case("pack empty copy", 4, "empty"),
    Case("pack broken copy --short-side 16", 4, "broken/train/class1/02.jpg", ("copy",)),
    Case(
        "pack 'parquet/*.parquet' copy",
        4,
        "00001-of",
        before=cut("parquet/train-00001-of-00002.parquet", 700),
    ),
    Case("pack table.csv copy --column path=file --column label=gone", 2, "label=gone"),
    Case("pack photos file/copy", 7, "file"),
]


@pytest.mark.parametrize("case", [*SPLITS, *COPIES], ids=str)
def test_command(case: Case, place: Path, mptctl: CommandLine) -> None:
    check(case, place, mptctl)


def test_a_copy_that_is_there_is_kept_and_another_one_is_refused(place: Path, mptctl: CommandLine) -> None:
    check(Case("pack photos copy --short-side 16 --json", files=COPIED), place, mptctl)
    files = sorted((path, path.stat().st_mtime_ns) for path in (place / "copy").rglob("*.jpg"))
    check(Case("pack photos copy --short-side 16 --json"), place, mptctl)
    assert sorted((path, path.stat().st_mtime_ns) for path in (place / "copy").rglob("*.jpg")) == files
    check(Case("pack photos copy --short-side 20", 2, "copy"), place, mptctl)
    check(Case("split copy --run-root new --json", files=SPLIT), place, mptctl)


def test_a_split_says_how_many_pictures_are_in_which_part(place: Path, mptctl: CommandLine) -> None:
    printed = check(Case(f"split photos --val-fraction 0.25 {NEW}"), place, mptctl)
    parts = {part: (counts["old"], counts["new"], counts["all"]) for part, counts in printed["parts"].items()}
    assert parts == {"train": (12, 12, 24), "val": (4, 4, 8), "test": (6, 6, 12)}
    assert printed["old_classes"] == ["class0", "class1"]
    assert check(Case(f"split broken --on-bad quarantine {NEW.replace('new', 'other')}"), place, mptctl)[
        "quarantined"
    ]
