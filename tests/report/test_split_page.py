"""The page of a split: counts of its classes, sizes, and a few pictures of each class."""

from __future__ import annotations

import re
from pathlib import Path

from mptctl.data.split import make_split
from mptctl.data.split_summary import summarise
from mptctl.report.documents.split import split_document
from mptctl.report.documents.split_page import CLASSES, PER_CLASS, split_page
from mptctl.report.media.document import Note, Table
from tests.common import smooth_picture

NAMES = ("a <b>class</b> with a name that is rather long, as those of WordNet are", "cat", "dog")


def uneven_folder(root: Path, names: tuple[str, ...] = NAMES) -> Path:
    """A folder whose classes have 2, 7, 12 and so on training pictures, of several sizes, and one test picture each."""
    for number, name in enumerate(names):
        for part, count in (("train", 2 + 5 * number), ("val", 1)):
            (root / part / name.replace("/", "-")).mkdir(parents=True)
            for each in range(count):
                picture = smooth_picture(20 + number, 30 + each, 100 * number + each + (part == "val") * 50)
                picture.save(root / part / name.replace("/", "-") / f"{each}.png")
    return root


def page_of_uneven_split(root: Path) -> str:
    split = make_split(
        "imagefolder", run_root=root / "runs", data_root=uneven_folder(root / "data"), val_fraction=0.1
    )
    return split_page(split, summarise(split, kept=False), ["mptctl", "split"])


def test_classes_are_counted_in_each_part_and_the_largest_stands_first(tmp_path: Path) -> None:
    split = make_split(
        "imagefolder", run_root=tmp_path, data_root=uneven_folder(tmp_path / "data"), val_fraction=0.1
    )
    summary = summarise(split, kept=False)
    parts = split_document(summary).shown_in("page")
    by_class = next(
        part for part in parts if isinstance(part, Table) and part.title == "Pictures of each class"
    )
    rows = [[cell.text for cell in row][1:] for row in by_class.cells()]
    assert rows == [["11", "1", "1"], ["6", "1", "1"], ["2", "0", "1"]]
    assert summary.imbalance == 5.5
    sizes = summary.sizes
    assert (sizes.smallest, sizes.largest) == ((30, 20), (41, 22))
    said = [part.text for part in split_document(summary).parts if isinstance(part, Note)]
    assert "a class has 2 to 11 training pictures, the largest 5.5 times the smallest" in said
    assert any(text.startswith("sizes: 30 x 20 to 41 x 22, half of them up to") for text in said)


def test_of_many_classes_a_terminal_shows_both_ends(tmp_path: Path) -> None:
    names = tuple(f"class {number:02d}" for number in range(14))
    split = make_split("imagefolder", run_root=tmp_path, data_root=uneven_folder(tmp_path / "data", names))
    shown = split_document(summarise(split, kept=False)).shown_in("terminal")
    table = [part for part in shown if isinstance(part, Table)][1]
    assert [row[0].text for row in table.cells()] == [
        f"class {number:02d}" for number in (13, 12, 11, 10, 9, 4, 3, 2, 1, 0)
    ]
    assert table.legend == "4 classes between these are not shown."


def test_the_page_has_a_few_pictures_of_each_class_and_no_name_is_markup(tmp_path: Path) -> None:
    page = page_of_uneven_split(tmp_path)
    assert "<b>class" not in page
    assert len(re.findall(r'<img src="data:image/jpeg;base64,', page)) == 2 + 2 * PER_CLASS
    assert len(NAMES) < CLASSES
    assert 'alt="train/dog/0.png"' in page
