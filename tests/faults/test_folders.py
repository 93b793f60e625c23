"""Rows 23, 30, 38 and 44: names and links that lead elsewhere, runs that would replace teachers, foreign locks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mptctl.models.run_folder import RunDir
from tests.common import CommandLine
from tests.models.folders import a_search, every_verb, refused, state, words
from tests.models.folders import base as base
from tests.models.folders import models as models
from tests.models.folders import never_hangs as never_hangs


@every_verb
@pytest.mark.parametrize(
    "name",
    ["../outside", ".", "..", "", " ", "a/../../outside", "ref/..", "ABSOLUTE", "nul\0", "cache", "split.json"],
)  # fmt: skip
def test_row_30_a_name_that_is_no_folder_below_the_run_root_is_refused(
    mptctl: CommandLine, base: Path, verb: str, name: str
) -> None:
    name = str(base / "outside") if name == "ABSOLUTE" else name
    said = refused(mptctl, base, words(verb, base, "--name", name, "--overwrite"))
    assert any(text in said for text in ("use another --name", "below the run root", "--name '': is empty"))


@every_verb
def test_row_30_a_linked_run_folder_is_refused(mptctl: CommandLine, base: Path, verb: str) -> None:
    (base / "runs" / "linked").symlink_to(base / "outside")
    (base / "runs" / "lost").symlink_to(base / "nowhere")
    for flag in ("--overwrite", *(() if verb == "import" else ("--resume", "--dry-run"))):
        for name in ("linked", "linked/ref", "lost"):
            assert "is a link" in refused(mptctl, base, words(verb, base, "--name", name, flag))


@pytest.mark.parametrize("flag", ["--overwrite", "--resume"])
@pytest.mark.parametrize("inside", ["best.pt", "metrics.jsonl", "tensorboard", "notes.txt"])
def test_row_30_a_link_in_a_run_folder_is_refused(
    mptctl: CommandLine, base: Path, inside: str, flag: str
) -> None:
    folder = shutil.copytree(base / "runs" / "ref", base / "runs" / "mine")
    if inside == "tensorboard":
        shutil.rmtree(folder / inside)
    (folder / inside).unlink(missing_ok=True)
    (folder / inside).symlink_to(base / "outside" / inside)
    assert f"{inside}: is a link" in refused(mptctl, base, words("train-ref", base, "--name", "mine", flag))


def test_row_30_a_link_in_the_folder_of_a_search_is_refused(mptctl: CommandLine, base: Path) -> None:
    trials = a_search(base) / "trials"
    (trials / "kl-k0").symlink_to(base / "outside")
    for flag in ("--overwrite", "--resume"):
        assert "kl-k0: is a link" in refused(mptctl, base, words("tune", base, flag))
    (trials / "kl-k0").unlink()
    page = trials.parent / "tune.html"
    page.symlink_to(base / "outside" / "precious.html")
    assert "tune.html: is a link" in refused(mptctl, base, words("tune", base, "--overwrite"))
    page.unlink()
    trials.rmdir()
    trials.symlink_to(base / "outside")
    assert "trials: is a link" in refused(mptctl, base, words("tune", base, "--overwrite"))


@pytest.mark.parametrize(
    ("verb", "flags"),
    [
        ("train-mpt", "--name old"),
        ("train-mpt", "--name ref"),
        ("train-mpt", "--name mine --ref mine"),
        ("train-mpt", "--name mine --ref BASE/runs/../runs/mine/best.pt"),
        ("train-mpt", "--name mine --ref link"),
        ("train-mpt", "--name mine --ref BASE/link-to-runs/mine/last.pt"),
        ("train-baseline", "--name mine --old mine"),
        ("train-baseline", "--name old --dry-run"),
        ("tune", "--name ref"),
        ("tune", "--name old --dry-run"),
        ("tune", "--name tune --ref tune/trials/kl-k0"),
    ],
)
def test_row_38_a_run_that_would_replace_its_own_teacher_is_refused(
    mptctl: CommandLine, base: Path, verb: str, flags: str
) -> None:
    shutil.copytree(base / "runs" / "ref", base / "runs" / "mine")
    shutil.copytree(base / "runs" / "ref", a_search(base) / "trials" / "kl-k0")
    (base / "runs" / "link").symlink_to(base / "runs" / "mine")
    (base / "link-to-runs").symlink_to(base / "runs")
    line = words(verb, base, "--overwrite", *flags.replace("BASE", str(base)).split())
    assert "which this command reads" in refused(mptctl, base, line)


def test_row_38_import_does_not_replace_what_it_brings_in(mptctl: CommandLine, base: Path) -> None:
    shutil.copy(base / "foreign.pt", base / "runs" / "old" / "production.pt")
    line = words("import", base, "--overwrite")
    line[1] = str(base / "runs" / "old" / "production.pt")
    assert "production.pt, which this command reads" in refused(mptctl, base, line)


def _hard_link(lock: Path, outside: Path) -> None:
    (outside / "number").write_text("4711\n")
    os.link(outside / "number", lock)


FOREIGN: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda lock, outside: lock.symlink_to(outside / "thesis.txt"),
    "dangling link": lambda lock, outside: lock.symlink_to(outside / "made by the lock"),
    "fifo": lambda lock, outside: os.mkfifo(lock),
    "somebody's file": lambda lock, outside: lock.write_text("the combination is 4711"),
    "hard link": _hard_link,
    "folder": lambda lock, outside: lock.mkdir(),
}


@every_verb
@pytest.mark.parametrize("held", [True, False], ids=["run", "no run"])
@pytest.mark.parametrize("what", FOREIGN)
def test_row_44_a_lock_that_is_not_ours_is_refused_and_stays(
    mptctl: CommandLine, base: Path, verb: str, what: str, held: bool
) -> None:
    folder = base / "runs" / "mine"
    if held and verb == "tune":
        folder = a_search(base).rename(folder)
    elif held:
        shutil.copytree(base / "runs" / "ref", folder)
    else:
        folder.mkdir()
    FOREIGN[what](folder / "lock", base / "outside")
    for flags in ([], ["--overwrite"], [] if verb == "import" else ["--resume"]):
        assert "lock" in refused(mptctl, base, words(verb, base, "--name", "mine", *flags))


@every_verb
def test_row_23_a_folder_that_another_process_writes_is_refused(
    mptctl: CommandLine, base: Path, verb: str
) -> None:
    folder = (
        a_search(base) if verb == "tune" else shutil.copytree(base / "runs" / "ref", base / "runs" / "mine")
    )
    with RunDir(folder).locked("keep"):
        for flags in ([], ["--overwrite"], [] if verb == "import" else ["--resume"]):
            said = refused(mptctl, base, words(verb, base, "--name", folder.name, *flags))
            assert "another process is training into it" in said


def test_row_44_a_refused_command_leaves_no_folder_behind(mptctl: CommandLine, base: Path) -> None:
    before = state(base)
    assert mptctl(*words("train-ref", base, "--name", "seed1/never", "--resume")).returncode == 5
    assert mptctl(*words("tune", base, "--name", "seed1/never", "--resume")).returncode == 2
    assert (
        mptctl(*words("train-ref", base, "--set", "optim.batch_size=4096", "--name", "never")).returncode == 2
    )
    assert state(base) == before
