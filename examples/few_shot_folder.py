"""An image folder for few-shot: base classes to train on, novel ones to be asked, as links to pictures that are there.

    python examples/few_shot_folder.py OUT --base DIR LIST --novel DIR LIST

DIR holds a folder of pictures a class. LIST is a file of class names, one a line; a .csv of `filename,label`, whose
pictures may also lie side by side in DIR; or a rule over the sorted folders: all, cub-base, cub-validation, cub-novel.
Of each base class every tenth picture is for testing. Of each novel class all are but the first, which `mptctl split`
wants for training and nothing trains on. Beside train/ and val/ stands base.txt, for `mptctl split --old-classes`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from pathlib import Path

EXTENSIONS = (".jpg", ".jpeg", ".png")
# CUB's classes by their place among the sorted folders, counted from 0 (bl0/negative-margin.few-shot).
RULES: dict[str, Callable[[int], bool]] = {
    "all": lambda place: True,
    "cub-base": lambda place: place % 2 == 0,
    "cub-validation": lambda place: place % 4 == 1,
    "cub-novel": lambda place: place % 4 == 3,
}


def pictures_by_class(folder: Path, chosen: str) -> dict[str, list[Path]]:
    """The pictures of the classes that a list or rule names, sorted.

    Raises:
        SystemExit: a class or a picture that is not there; it is named.
    """
    folders = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
    if chosen in RULES:
        return {name: _pictures(folder / name) for place, name in enumerate(folders) if RULES[chosen](place)}
    if Path(chosen).suffix != ".csv":
        names = [line.strip() for line in Path(chosen).read_text(encoding="utf-8").splitlines()]
        return {name: _pictures(folder / name) for name in names if name}
    found: dict[str, list[Path]] = {}
    with open(chosen, newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            inside, beside = folder / row["label"] / row["filename"], folder / row["filename"]
            found.setdefault(row["label"], []).append(inside if inside.is_file() else beside)
    gone = [path for paths in found.values() for path in paths if not path.is_file()]
    if gone:
        raise SystemExit(f"{gone[0]}: not there; {chosen} names it")
    return found


def link_classes(out: Path, classes: dict[str, list[Path]], *, base: bool) -> None:
    """Link the pictures of some classes into ``train/`` and ``val/``."""
    for name, pictures in classes.items():
        for number, picture in enumerate(pictures):
            tested = number % 10 == 9 if base else number > 0
            target = out / ("val" if tested else "train") / name / picture.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(picture.resolve())


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the folder, and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    for role in ("base", "novel"):
        parser.add_argument(f"--{role}", nargs=2, metavar=("DIR", "LIST"), required=True)
    given = parser.parse_args(arguments)
    base, novel = (pictures_by_class(Path(folder), chosen) for folder, chosen in (given.base, given.novel))
    both = sorted(base.keys() & novel.keys())
    if both:
        raise SystemExit(f"{both[0]}: is a base class and a novel one; name it in one list")
    link_classes(given.out, base, base=True)
    link_classes(given.out, novel, base=False)
    (given.out / "base.txt").write_text("".join(f"{name}\n" for name in base), encoding="utf-8")
    print(f"{given.out}: {len(base)} base and {len(novel)} novel classes")


def _pictures(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise SystemExit(f"{folder}: not there; name a class that is")
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in EXTENSIONS)


if __name__ == "__main__":
    main()
