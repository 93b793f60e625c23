"""Rows 8, 31, 32 and 85: a copy of pictures that is killed or whose disk fills goes on, and stays in its folder."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFile

# What the command imports, once for all children.
from mptctl.data.packing import plan, remote
from mptctl.data.packing.records import FILES_NAME, PackedFile, append_packed_files
from mptctl.errors import StorageError
from tests.common import CommandLine
from tests.data.test_pack import whole
from tests.faults.process import run_forked
from tests.faults.test_storage import full_but_for, kill_at, on_a_full_disk


@pytest.fixture
def copied(folder: Path, mptctl: CommandLine, tmp_path: Path) -> dict[str, bytes]:
    """What a copy holds whose packing nobody disturbed."""
    assert mptctl("pack", folder, tmp_path / "undisturbed", "--short-side", "50").returncode == 0
    return whole(tmp_path / "undisturbed")


def assert_nothing_is_cut(out: Path, wanted: dict[str, bytes]) -> None:
    """Each picture or shard that has its name is the whole one."""
    for path, content in whole(out).items():
        if path.endswith((".jpg", ".tar")):
            assert content == wanted[path]


@pytest.mark.parametrize(
    ("form", "steps", "least"),
    [
        (("--short-side", "50"), (*range(1, 8), *range(8, 400, 29)), 13),
        (("--to", "shards"), range(1, 90, 5), 7),
    ],
    ids=["folder", "shards"],
)
def test_row_31_a_copy_that_is_killed_at_every_step_ends_as_one_that_was_not(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: tuple[str, str],
    steps: Sequence[int],
    least: int,
) -> None:
    monkeypatch.setattr(plan, "SHARD_PICTURES", 8)
    out = tmp_path / "copy"
    words = ("pack", folder, out, *form)

    def ends_as(wanted: dict[str, bytes]) -> None:
        assert run_forked(*words).returncode == 0
        assert whole(out) == wanted
        shutil.rmtree(out)

    assert run_forked(*words).returncode == 0
    ends_as(wanted := whole(out))
    kills = 0
    for step in steps:
        code = run_forked(*words, before=kill_at(step, out)).returncode
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
        assert_nothing_is_cut(out, wanted)
        if step % 3 == 0:
            ends_as(wanted)
    assert kills >= least
    ends_as(wanted)


def when(count: int, out: Path, signum: int) -> Callable[[], None]:
    """For `before`: a signal to the process once so many pictures are there."""

    def watch() -> None:
        parent = os.getpid()
        if os.fork() == 0:
            while len(list(out.glob("*/*/*.jpg"))) < count and os.getppid() == parent:
                time.sleep(0.001)
            if os.getppid() == parent:
                os.kill(parent, signum)
            os._exit(0)

    return watch


def test_row_08_ctrl_c_says_how_a_copy_goes_on(
    folder: Path, tmp_path: Path, copied: dict[str, bytes]
) -> None:
    out = tmp_path / "small"
    words = ("pack", folder, out, "--short-side", "50")
    done = run_forked(*words, before=when(3, out, signal.SIGINT))
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"mptctl: {out}: stopped; give the same command again: it goes on"
    )
    assert_nothing_is_cut(out, copied)
    assert 3 <= len(list(out.glob("*/*/*.jpg"))) < 56
    assert not list(out.rglob(".*.part"))
    assert run_forked(*words).returncode == 0
    assert whole(out) == copied


def kill_before_complete(out: Path) -> Callable[[], None]:
    """For `before`: SIGKILL when all pictures are there, before pack.json says that the copy is complete."""
    renamed: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.rename" and str(arguments[1]) == str(out / "pack.json"):
            renamed.append(event)
            if len(renamed) == 2:
                os.kill(os.getpid(), signal.SIGKILL)

    return lambda: sys.addaudithook(hook)


@pytest.mark.parametrize(("to", "place"), [("folder", ""), ("shards", "*.tar")])
def test_row_31_split_warns_of_a_copy_that_was_killed(
    folder: Path, tmp_path: Path, to: str, place: str
) -> None:
    out = tmp_path / "copy"
    pack = ("pack", folder, out, "--to", to)
    split = ("split", out / place, "--run-root", tmp_path / "runs")
    assert run_forked(*pack, before=kill_before_complete(out)).returncode == -signal.SIGKILL
    for words in (split, (*split, "--json")):
        done = run_forked(*words)
        assert done.returncode == 0, done.stderr
        assert f"warning: {out}: is an incomplete copy of {folder}, so pictures" in done.stderr
        assert "pack command again, which goes on, then split with --overwrite\n" in done.stderr
    assert run_forked(*pack).returncode == 0
    assert "warning" not in run_forked(*split, "--overwrite").stderr


def test_row_32_a_list_of_what_is_packed_that_cannot_be_closed_either(tmp_path: Path) -> None:
    (tmp_path / FILES_NAME).symlink_to("/dev/full")
    picture = PackedFile("train/a/0.jpg", 4764, 1, 2570, "resized")
    with pytest.raises(StorageError, match=f"{FILES_NAME}: no room"):
        append_packed_files(tmp_path, [picture])


@on_a_full_disk
@pytest.mark.parametrize("pages", [0, 1, 9, 30])
def test_row_32_a_disk_that_fills_while_pictures_are_packed(
    folder: Path, tmp_path: Path, copied: dict[str, bytes], pages: int
) -> None:
    out = tmp_path / "disk"
    out.mkdir()
    before, after = full_but_for(out, 4096 * pages, tmp_path / "kept")
    done = run_forked("pack", folder, out / "small", "--short-side", "50", before=before, after=after)
    assert done.returncode == 7, done.stderr
    (said,) = done.stderr.splitlines()
    assert "no room" in said
    assert "; make room" in said
    assert said.endswith("; give the same command again: it goes on")
    left = tmp_path / "kept" / "small"
    assert not list(left.rglob(".*.part"))
    if left.exists():
        assert_nothing_is_cut(left, copied)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store in memory, of fsspec as the others are."""
    monkeypatch.setitem(remote._PROTOCOLS, "memory", "fsspec")
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()


@on_a_full_disk
def test_row_32_a_disk_that_fills_while_a_table_is_fetched_is_no_fault_of_the_store(
    tmp_path: Path, store: Any
) -> None:
    store.pipe("/bucket/train.parquet", bytes(100_000))
    out = tmp_path / "disk"
    out.mkdir()
    before, after = full_but_for(out, 4096 * 9, tmp_path / "kept")
    done = run_forked("pack", "memory://bucket", out / "copy", before=before, after=after)
    assert (done.returncode, done.stderr.count("\n")) == (7, 1), done.stderr
    assert "train.parquet: no room" in done.stderr
    assert not list((tmp_path / "kept").rglob(".*.part"))


@pytest.mark.parametrize(
    "key", ["../../foreign.parquet", "tables/../../../foreign.parquet", "photos/cat/../../../1.jpg"]
)
def test_row_85_a_key_of_a_store_does_not_lead_out_of_the_copy(
    tmp_path: Path, mptctl: CommandLine, store: Any, key: str
) -> None:
    """Beside a sound table the store has a key with `..`."""
    store.pipe("/bucket/train.parquet", b"PAR1")
    # As a real store does, and `pipe` does not, it keeps the key as it is.
    store.store[f"/bucket/{key}"] = MemoryFile(store, f"/bucket/{key}", b"foreign")
    (tmp_path / "foreign.parquet").write_bytes(b"mine")
    (tmp_path / "1.jpg").write_bytes(b"mine")
    done = mptctl("pack", "memory://bucket", tmp_path / "out" / "copy")
    assert (done.returncode, done.stdout) == (4, ""), done.stderr
    assert "have a part `..`" in done.stderr
    assert (tmp_path / "foreign.parquet").read_bytes() == (tmp_path / "1.jpg").read_bytes() == b"mine"
    assert not list(tmp_path.rglob("out/**/*.parquet"))


def test_a_bucket_with_a_dot_in_its_name_is_no_file(
    tmp_path: Path, folder: Path, mptctl: CommandLine, store: Any
) -> None:
    for path, content in whole(folder).items():
        store.pipe(f"/photos-v1.0/set.2/{path}", content)
    done = mptctl("pack", "memory://photos-v1.0/set.2", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert {name for name in whole(tmp_path / "out") if name.endswith(".jpg")} == set(whole(folder))


def test_a_picture_in_no_part_beside_pictures_in_parts_is_named(
    tmp_path: Path, mptctl: CommandLine, store: Any
) -> None:
    store.pipe("/bucket/train/cat/1.jpg", b"a")
    store.pipe("/bucket/cat/2.jpg", b"b")
    done = mptctl("pack", "memory://bucket", tmp_path / "out")
    assert (done.returncode, done.stdout) == (4, "")
    assert "in a part, and others are in none: /bucket/cat/2.jpg; expected CLASS/FILE" in done.stderr


def test_a_table_of_addresses_is_fetched(
    tmp_path: Path, folder: Path, mptctl: CommandLine, store: Any
) -> None:
    lines = ["path,label,split"]
    for path, content in whole(folder).items():
        store.pipe(f"/bucket/{path}", content)
        part, label, _ = path.split("/")
        lines.append(f"memory://bucket/{path},{label},{part}")
    (tmp_path / "addresses.csv").write_text("\n".join(lines))
    done = mptctl("pack", tmp_path / "addresses.csv", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    packed = [content for name, content in whole(tmp_path / "out").items() if name.endswith(".jpg")]
    assert sorted(packed) == sorted(whole(folder).values())
