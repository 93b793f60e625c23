"""Rows 37 and 46: outputs that are inputs, links, devices or folders, and the rights of what is written."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mptctl.cli.outputs import Outputs
from mptctl.data.split import make_split
from tests.common import CommandLine


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two models' predictions, links to them, and things that are not to be lost."""
    monkeypatch.chdir(tmp_path)
    ids, labels = np.array([f"test/{i}" for i in range(8)]), np.array([0, 0, 0, 0, 1, 1, 2, 2])
    logits = np.random.default_rng(0).normal(size=(8, 3)) + 3 * np.eye(3)[labels]
    np.savez("old.npz", id=ids, label=labels, logits=logits[:, :2], classes=[0, 1])
    np.savez("new.npz", id=ids, label=labels, logits=logits, classes=[0, 1, 2])
    Path("labels.txt").write_text("0\n1\n")
    Path("notes.csv").write_text("mine")
    Path("folder").mkdir()
    Path("folder/precious").write_text("precious")
    Path("link.npz").symlink_to("old.npz")
    os.link("new.npz", "second-name.npz")
    Path("inside").mkdir()
    Path("inside/margins.png").symlink_to("../folder/precious")
    Path("inside/old.npz").symlink_to("../folder/precious")
    Path("away.html").symlink_to("folder/precious")
    Path("nowhere.html").symlink_to("nothing")
    Path("loop.html").symlink_to("loop.html")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # An input, under any of its names.
        ("--report old.npz", "--report old.npz: is read by this call"),
        ("--markdown folder/../new.npz", "--markdown folder/../new.npz: is read by this call"),
        ("--report link.npz", "--report link.npz: is read by this call"),
        ("--report second-name.npz", "is read by this call (new.npz)"),
        ("--save-predictions .", "--save-predictions old.npz: is read by this call"),
        ("--old-classes labels.txt --report labels.txt", "is read by this call (labels.txt)"),
        # Another output.
        ("--report page --markdown ./page", "--markdown page: is in the way of --report page"),
        ("--markdown out/new.npz --save-predictions out", "is in the way of --markdown out/new.npz"),
        ("--report out --save-predictions out", "is in the way of --report out"),
        # No file.
        ("--report folder", "--report folder: is a folder"),
        ("--flips -", "--flips -: name a file, or /dev/stdout"),
        ("--report ~/page.html", "--report ~/page.html: the shell has not replaced ~; write the whole path"),
        ("--save-predictions labels.txt", "--save-predictions labels.txt: is not a folder"),
        # A link out of the folder.
        ("--report away.html", "--report away.html: is a link to"),
        ("--markdown nowhere.html", "--markdown nowhere.html: is a link to"),
        ("--report loop.html", "--report loop.html: is a link to"),
        ("--save-predictions inside", "--save-predictions inside/old.npz: is a link to"),
        # An ending of another kind than what would be written.
        ("--report labels.txt", "--report labels.txt: needs a name that ends in .html"),
        ("--flips flips.txt", "--flips flips.txt: needs a name that ends in .csv"),
    ],
)
def test_row_37_an_output_that_would_destroy_something_is_refused_at_once(
    mptctl: CommandLine, files: Path, options: str, message: str
) -> None:
    before = contents(files)
    done = mptctl("evaluate", "old.npz", "new.npz", *options.split())
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert contents(files) == before


@pytest.mark.parametrize(
    "options", ["--report parts/page.html", "--flips parts/f.csv", "--save-predictions parts"]
)
def test_row_37_nothing_is_written_among_the_parts_of_an_input(
    mptctl: CommandLine, files: Path, options: str
) -> None:
    Path("parts").mkdir()
    Path("old.npz").rename("parts/0.npz")
    before = contents(files)
    done = mptctl("evaluate", "parts", "new.npz", *options.split())
    assert done.returncode == 2, done.stderr
    assert "would lie among the parts of parts, and be read with them; name another folder" in done.stderr
    assert contents(files) == before


def test_row_37_it_is_refused_before_anything_is_read(mptctl: CommandLine, files: Path) -> None:
    Path("old.npz").write_text("damaged, which is said with 4 once it is read")
    assert mptctl("evaluate", "old.npz", "new.npz", "--report", "old.npz").returncode == 2


@pytest.mark.parametrize("output", ["runs/split.json", "table", "runs/mpt/best.pt"])
def test_row_37_the_split_and_the_checkpoint_are_inputs(
    mptctl: CommandLine, tmp_path: Path, output: str
) -> None:
    make_split("digits", run_root=tmp_path / "runs")
    for name in ("old", "mpt"):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "best.pt").write_text("weights")
    before = contents(tmp_path)
    path = next((tmp_path / "runs").glob("split-*.arrow")) if output == "table" else tmp_path / output
    done = mptctl("evaluate", "old", "mpt", "--run-root", tmp_path / "runs", "--report", path)
    assert done.returncode == 2, done.stderr
    assert f"{path}: is read by this call" in done.stderr
    assert contents(tmp_path) == before


def test_row_37_a_fifo_a_device_and_a_pipe_are_written_into(mptctl: CommandLine, files: Path) -> None:
    os.mkfifo("pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(Path("pipe").read_bytes()), daemon=True)
    reader.start()
    ours, theirs = os.openpty()
    terminal = os.ttyname(theirs)
    done = mptctl("evaluate", "old.npz", "new.npz", "--report", "pipe", "--markdown", terminal)
    assert done.returncode == 0, done.stderr
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    reader.join(timeout=30)
    assert found[0].startswith(b"<!")
    assert stat.S_ISCHR(os.stat(terminal).st_mode)
    assert b"###" in os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)


def test_row_37_what_goes_nowhere_may_go_there_twice() -> None:
    outputs = Outputs()
    outputs.add_file("--report", Path(os.devnull))
    outputs.add_file("--markdown", Path(os.devnull))
    outputs.check([Path(os.devnull)])


def test_row_37_a_link_to_a_file_beside_it_is_followed(mptctl: CommandLine, files: Path) -> None:
    Path("page-2.html").write_text("old page")
    Path("page.html").symlink_to("page-2.html")
    assert mptctl("evaluate", "old.npz", "new.npz", "--report", "page.html").returncode == 0
    assert Path("page.html").is_symlink()
    assert Path("page-2.html").read_text().startswith("<!")


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("strict_umask")
def test_row_46_under_a_strict_umask_nobody_else_reads_what_was_written(
    mptctl: CommandLine, files: Path
) -> None:
    names = "--report out/page.html --markdown out/page.md --save-predictions out"
    assert mptctl("evaluate", "old.npz", "new.npz", *names.split()).returncode == 0
    assert mptctl("split", "digits", "--run-root", "out/runs").returncode == 0
    written = [path for path in Path("out").rglob("*") if path.is_file()]
    assert len(written) == 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}


def test_row_37_tune_does_not_write_over_its_recipe(
    mptctl: CommandLine, digits_root: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(digits_root, tmp_path / "runs")
    (root / "tune").mkdir()
    (root / "tune" / "best.yaml").write_text("method:\n  name: mpt-kl\n")
    before = contents(tmp_path)
    recipe = root / "tune" / ".." / "tune" / "best.yaml"
    done = mptctl("tune", "--run-root", root, "--overwrite", "--recipe", recipe)
    assert done.returncode == 2, done.stderr
    assert "best.yaml, which this command reads" in done.stderr
    assert contents(tmp_path) == before
