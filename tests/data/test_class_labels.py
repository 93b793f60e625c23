"""Names for people beside class ids: which files are taken, and what is said of those that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from mptctl.data.class_labels import choose_class_labels, label_classes, read_class_labels
from mptctl.data.split import load_split, make_split
from mptctl.errors import UsageError

CLASSES = ("n01641577", "n01644900", "n01440764")


def read_and_choose(path: Path) -> tuple[dict[str, str], list[str]]:
    """Read a file, and choose the names of these classes from it."""
    return choose_class_labels(read_class_labels(path), CLASSES, path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("map.txt", "n01641577 bullfrog, Rana catesbeiana\nn01644900 tailed frog\nn01440764 tench\n"),
        ("map.tsv", "n01641577\tbullfrog, Rana catesbeiana\nn01644900\ttailed frog\n\nn01440764\ttench\n"),
        (
            "map.csv",
            'id,name\nn01641577,"bullfrog, Rana catesbeiana"\nn01644900,tailed frog\nn01440764,tench\n',
        ),
        ("map.csv", "n01641577,bullfrog, Rana catesbeiana\nn01644900,tailed frog\nn01440764,tench\n"),
    ],
)
def test_two_columns_are_read_as_text_and_as_csv(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    labels, notes = read_and_choose(tmp_path / name)
    assert labels == {
        "n01641577": "bullfrog, Rana catesbeiana", "n01644900": "tailed frog", "n01440764": "tench"
    }  # fmt: skip
    assert notes == []


def test_what_is_missing_unknown_or_named_alike_is_noted(tmp_path: Path) -> None:
    (tmp_path / "map.txt").write_text("n01641577 crane\nn01644900 crane\nn09999999 car\n")
    assert read_and_choose(tmp_path / "map.txt")[1] == [
        "n01440764 has no name and is shown by id",
        "1 id of the file is no class of the split",
        "crane: the name of several classes, which their ids tell apart",
    ]


def test_a_first_line_of_column_names_is_an_id_where_a_class_has_it(tmp_path: Path) -> None:
    (tmp_path / "map.csv").write_text("label,name\nn01641577,bullfrog\n")
    names = read_class_labels(tmp_path / "map.csv")
    for classes, labels in ((["n01641577"], {"n01641577": "bullfrog"}), (["label"], {"label": "name"})):
        assert choose_class_labels(names, classes, tmp_path / "map.csv")[0] == labels
    assert choose_class_labels(names, ["n01641577"], tmp_path / "map.csv")[1] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("n01641577 frog\nn01641577 toad\n", "line 2: n01641577 has two names, 'frog' and 'toad'; keep one"),
        ("n01641577\n", "line 1: 'n01641577' alone; write an id and a name a line"),
        ("frog n01641577\n", "none of its 1 ids is a class of the split, such as n01641577"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(tmp_path: Path, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / "map.txt").write_text(text)
    with pytest.raises(UsageError) as error:
        read_and_choose(tmp_path / "map.txt")
    assert str(error.value).startswith(f"--class-labels {tmp_path / 'map.txt'}: ")
    assert says in str(error.value)


def test_names_change_neither_the_split_nor_its_fingerprint(tmp_path: Path) -> None:
    split = make_split("digits", run_root=tmp_path)
    before = load_split(tmp_path)
    label_classes(split, {"0": "zero"})
    after = load_split(tmp_path)
    assert after.file.class_labels == {"0": "zero"}
    assert before.file.class_labels is None
    assert after.fingerprint == before.fingerprint
    assert after.classes.names == before.classes.names
    kept = make_split("digits", run_root=tmp_path)
    assert kept.file.class_labels == {"0": "zero"}
