"""Files that are written whole or not at all: their rights, and outputs that are no plain files."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mptctl.errors import StorageError, UsageError
from mptctl.files import (
    FilesTogether,
    Model,
    read_names,
    remove_partial_files,
    replacing,
    write_atomically,
    writing,
)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(("mask", "rights"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_files_have_the_rights_that_the_umask_leaves(tmp_path: Path, mask: int, rights: int) -> None:
    os.umask(mask)
    write_atomically(tmp_path / "new", b"1")
    write_atomically(tmp_path / "replaced", b"1")
    write_atomically(tmp_path / "replaced", b"2", keep_previous=tmp_path / "previous")
    with writing(tmp_path / "output") as stream:
        stream.write(b"1")
    for name in ("new", "replaced", "previous", "output"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == rights, name


@pytest.mark.usefixtures("umask")
def test_what_is_half_written_is_its_owners_alone(tmp_path: Path) -> None:
    os.umask(0o002)
    with replacing(tmp_path / "file") as stream:
        stream.write(b"half")
        (partial,) = tmp_path.iterdir()
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
        assert partial.name.startswith(".file.")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_only_partial_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".best.pt.0a1b2c3d.part").write_text("x")
    (tmp_path / ".folder.part").mkdir()
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / ".link.part").symlink_to("elsewhere")
    remove_partial_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".folder.part", ".link.part", "elsewhere"]


def test_names_are_read_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "classes.txt"
    file.write_text("  tabby cat \n\n\u00e9toile\n", encoding="utf-8")
    assert read_names(file, "--old-classes") == ["tabby cat", "\u00e9toile"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe", r"cannot be read \(not UTF-8\)"),
        (b" \n\n", "holds no name"),
        (b"cat\n" + b"x" * 5000, "line 2 has 5,000 characters"),
    ],
)
def test_a_file_of_names_that_cannot_be_used_is_refused_with_its_flag(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "classes.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        read_names(file, "--old-classes")
    assert str(caught.value).startswith(f"--old-classes {file}: ")


class Named(Model):
    """A record."""

    name: str


@pytest.mark.parametrize("name", ["c\x7ft", "\u202ecat", "\x9b2J", "a\u2028b", "\U000e0041", "猫 é \n \t"])
def test_json_holds_no_character_that_a_terminal_obeys_or_hides(name: str) -> None:
    for indent in (None, 2):
        text = Named(name=name).model_dump_json(indent=indent)
        assert text.replace("\n", "").isprintable()
        assert json.loads(text) == {"name": name}
    assert "猫 é" in Named(name="猫 é").model_dump_json()


def test_files_of_one_command_stay_as_they_were_where_one_cannot_be_replaced(tmp_path: Path) -> None:
    names = ("page.html", "page.md", "junit.xml")
    for name in names[1:]:
        (tmp_path / name).write_text(f"earlier {name}")

    def write_all(*, blocked: bool) -> None:
        with FilesTogether() as files:
            for name in names:
                with files.open(tmp_path / name) as stream:
                    stream.write(b"new")
            if blocked:
                (tmp_path / names[0] / "in-the-way").mkdir(parents=True)

    with pytest.raises(StorageError, match=r"page\.html: cannot be written"):
        write_all(blocked=True)
    assert [(tmp_path / name).read_text() for name in names[1:]] == ["earlier page.md", "earlier junit.xml"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit.xml", "page.html", "page.md"]
    (tmp_path / names[0] / "in-the-way").rmdir()
    (tmp_path / names[0]).rmdir()
    write_all(blocked=False)
    assert [(tmp_path / name).read_text() for name in names] == ["new"] * 3
    assert len(list(tmp_path.iterdir())) == 3
