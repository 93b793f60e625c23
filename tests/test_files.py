"""Files that are written whole or not at all, folders of our own, and what messages are made of."""

from __future__ import annotations

import ast
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mptctl.errors import StorageError, UsageError, first_line, one_line, some
from mptctl.files import (
    FilesTogether,
    Model,
    read_names,
    remove_partial_files,
    replacing,
    write_atomically,
    writing,
)
from mptctl.files.scratch import MARK, mark_of, remove_leftovers, scratch_folder
from tests.common import environment


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
    with replacing(tmp_path / "slow") as stream:
        stream.write(b"half")
        (partial,) = tmp_path.glob(".slow.*")
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600  # what is half written is its owner's alone
    for name in (names := ("new", "replaced", "previous", "output", "slow")):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == rights, name
    assert {path.name for path in tmp_path.iterdir()} == set(names)


def test_only_partial_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".best.pt.0a1b2c3d.part").write_text("x")
    (tmp_path / ".folder.part").mkdir()
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / ".link.part").symlink_to("elsewhere")
    remove_partial_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".folder.part", ".link.part", "elsewhere"]


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
    file.write_text("  tabby cat \n\n\u00e9toile\n", encoding="utf-8")
    assert read_names(file, "--old-classes") == ["tabby cat", "\u00e9toile"]


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


# A program that has a folder, says where, and waits to be killed.
HOLDS = """
import time
from mptctl.files import scratch_folder
with scratch_folder() as folder:
    (folder / "tables").mkdir()
    (folder / "tables" / "spilled").write_text("rows")
    print(folder, flush=True)
    time.sleep(600)
"""


def test_a_killed_program_leaves_a_folder_that_the_next_one_removes_but_not_before(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [sys.executable, "-c", HOLDS]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env=environment(TMPDIR=str(temporary))
    ) as process:
        folder = Path(process.stdout.readline().strip())
        with scratch_folder():
            assert (folder / "tables" / "spilled").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (folder / "tables" / "spilled").exists()
    with scratch_folder() as mine:
        assert [path.name for path in temporary.iterdir()] == [mine.name]
    monkeypatch.setattr("tempfile.tempdir", str(temporary / "missing"))
    with pytest.raises(StorageError, match=r"missing/mptctl-: cannot be written"), scratch_folder():
        pass


def test_the_folder_goes_with_all_that_is_in_it_but_not_what_a_link_leads_to(
    temporary: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kept").write_text("somebody's")
    with scratch_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "file").write_text("ours")
        (folder / "below").mkdir()
        (folder / "link").symlink_to(elsewhere)
    assert list(temporary.iterdir()) == []
    assert (elsewhere / "kept").read_text() == "somebody's"


def write_mark(folder: Path) -> None:
    (folder / MARK).write_bytes(mark_of(folder))
    (folder / MARK).chmod(0o600)


def test_whatever_is_not_surely_ours_stays(temporary: Path) -> None:
    """Names of no process, an earlier version's folder, no mark, other rights, other owners, links."""
    for name in ("ray-4194304", "ray-1", "nolock00", "openonly", "foreign1"):
        name = f"mptctl-{name}"
        (temporary / name).mkdir(mode=0o700)
        (temporary / name / "data").write_text("somebody's")
    for name in ("mptctl-openonly", "mptctl-foreign1"):
        write_mark(temporary / name)
    (temporary / "mptctl-openonly").chmod(0o755)
    if os.geteuid() == 0:
        os.chown(temporary / "mptctl-foreign1", 65534, 65534)
    else:
        (temporary / "mptctl-foreign1" / MARK).unlink()  # only root can make what another user owns
    (temporary / "mptctl-fifolock").mkdir(mode=0o700)
    os.mkfifo(temporary / "mptctl-fifolock" / MARK, 0o600)
    real = temporary / "elsewhere"
    real.mkdir(mode=0o700)
    (real / MARK).write_bytes(mark_of(Path("mptctl-linklock")))
    (real / MARK).chmod(0o600)
    (temporary / "mptctl-linked00").symlink_to(real)
    (temporary / "mptctl-linklock").mkdir(mode=0o700)
    (temporary / "mptctl-linklock" / MARK).symlink_to(real / MARK)
    (temporary / "mptctl-file0000").write_text("no folder")
    before = sorted(temporary.rglob("*"))
    remove_leftovers(temporary)
    assert sorted(temporary.rglob("*")) == before


def test_names_in_a_message_are_few() -> None:
    assert [some(names) for names in ([], ["a"], [1, 2, 3])] == ["", "a", "1, 2, 3"]
    assert some(iter("abcdefg")) == "a, b, c and 4 more"
    assert some("abc", limit=1) == "a and 2 more"
    assert some(["a: x", "b: y"], separator="; ") == "a: x; b: y"


def yaml_error(text: str) -> yaml.YAMLError:
    with pytest.raises(yaml.YAMLError) as error:
        yaml.safe_load(text)
    return error.value


def test_an_exception_is_one_line_without_a_librarys_trace() -> None:
    assert one_line(ValueError("a\n  b")) == "a b"
    assert one_line(KeyboardInterrupt()) == "KeyboardInterrupt"
    # As numpy says it of a header that holds a name.
    with pytest.raises(ValueError, match="object at 0x") as malformed:
        ast.literal_eval("{'descr': two}")
    assert one_line(malformed.value) == "malformed node or string on line 1: ast.Name"
    # YAML's: the place, and no string of the file.
    assert one_line(yaml_error("a: b: c")).startswith("line 1, column 5: mapping values are not allowed here")
    assert one_line(yaml_error("a: \x14")).startswith("character 4: special")
    trace = RuntimeError("\n  image is cut off  \nException raised from decode_jpeg")
    assert [first_line(error) for error in (trace, ValueError())] == ["image is cut off", "ValueError"]
