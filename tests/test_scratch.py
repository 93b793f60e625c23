"""Folders in a temporary directory that others write too: ours alone, and nobody else's is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mptctl.errors import StorageError
from mptctl.files.scratch import MARK, mark_of, remove_leftovers, scratch_folder
from tests.common import environment

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


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory that everybody may write."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def a_process_with_a_folder(temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=str(temporary)),
    )
    return process, Path(process.stdout.readline().strip())


def test_a_killed_program_leaves_a_folder_that_the_next_one_removes_but_not_before(temporary: Path) -> None:
    process, folder = a_process_with_a_folder(temporary)
    with process:
        with scratch_folder():
            assert (folder / "tables" / "spilled").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (folder / "tables" / "spilled").exists()
    with scratch_folder() as mine:
        assert [path.name for path in temporary.iterdir()] == [mine.name]


def test_the_folder_goes_with_all_that_is_in_it_but_not_what_a_link_leads_to(
    temporary: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kept").write_text("somebody's")
    with scratch_folder() as folder:
        (folder / "file").write_text("ours")
        (folder / "below").mkdir()
        (folder / "link").symlink_to(elsewhere)
    assert list(temporary.iterdir()) == []
    assert (elsewhere / "kept").read_text() == "somebody's"


def test_a_temporary_directory_that_cannot_be_written_is_a_fault_of_storage(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = temporary / "missing"
    monkeypatch.setattr("tempfile.tempdir", str(missing))
    with pytest.raises(StorageError, match=r"missing/mptctl-: cannot be written"), scratch_folder():
        pass


def write_mark(folder: Path) -> None:
    (folder / MARK).write_bytes(mark_of(folder))
    (folder / MARK).chmod(0o600)


def test_whatever_is_not_surely_ours_stays(temporary: Path) -> None:
    """Names of no process, an earlier version's folder, no mark, other rights, other owners, links."""
    for name in (
        "mptctl-ray-4194304",
        "mptctl-ray-1",
        "mptctl-nolock00",
        "mptctl-openonly",
        "mptctl-foreign1",
    ):
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
