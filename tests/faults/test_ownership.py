"""Row 38: --overwrite removes our own files in folders with our own marks, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.run_folder import RunDir
from tests.common import CommandLine
from tests.models.folders import a_search, every_verb, refused, words
from tests.models.folders import base as base
from tests.models.folders import models as models
from tests.models.folders import never_hangs as never_hangs


@every_verb
@pytest.mark.parametrize(
    "files",
    [
        {"chapter.txt": "one"},
        {"recipe.yaml": "RECIPE", "notes.txt": "tuned by hand"},
        {"split.json": "SPLIT"},
        {"environment.json": '{"command": "make", "started": "now", "versions": 5}'},
        {"best.pt": "weights of something else"},
        {"metrics.jsonl": '{"loss": 0.1}\n'},
        {"trials.json": "[]", "best.yaml": "method: mine\n"},
        {".thesis.txt.part": "half of it"},
    ],
    ids=lambda files: "+".join(files),
)
def test_row_38_a_folder_without_a_mark_of_ours_is_not_overwritten(
    mptctl: CommandLine, base: Path, verb: str, files: dict[str, str]
) -> None:
    (base / "runs" / "thesis").mkdir()
    real = {"RECIPE": base / "runs" / "ref" / "recipe.yaml", "SPLIT": base / "runs" / "split.json"}
    for name, text in files.items():
        content = real[text].read_text() if text in real else text
        (base / "runs" / "thesis" / name).write_text(content)
    said = refused(mptctl, base, words(verb, base, "--name", "thesis", "--overwrite"))
    assert "which is all that --overwrite replaces" in said
    refused(mptctl, base, words(verb, base, "--name", "thesis"))
    if verb != "import":
        refused(mptctl, base, words(verb, base, "--name", "thesis", "--overwrite", "--dry-run"))
        refused(mptctl, base, words(verb, base, "--name", "thesis", "--dry-run"))


def test_a_run_is_no_search_and_a_search_is_no_run(mptctl: CommandLine, base: Path) -> None:
    shutil.copytree(base / "runs" / "ref", base / "runs" / "mine")
    a_search(base)
    for verb, name, flags, said in (
        ("tune", "mine", ["--overwrite"], "no search of mptctl's"),
        *(
            ("train-ref", "tune", flags, "no run of mptctl's")
            for flags in (["--overwrite"], [], ["--dry-run"])
        ),
    ):
        assert said in refused(mptctl, base, words(verb, base, "--name", name, *flags))


@pytest.mark.parametrize("verb", ["train-ref", "import"])
def test_row_38_only_files_of_ours_are_removed_and_the_others_are_named(
    mptctl: CommandLine, base: Path, verb: str
) -> None:
    folder = shutil.copytree(base / "runs" / "ref", base / "runs" / "mine")
    foreign = ["notes.txt", "plots/a.png", "plots/best.pt", "tensorboard/mine.txt", ".env", ".x.part"]
    for name in foreign:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    for name in ("nonfinite.pt", ".best.pt.abcd1234.part", ".previous.pt.part"):
        (folder / name).write_bytes(b"")
    before = {path.name for path in (folder / "tensorboard").glob("events*")}
    done = mptctl(*words(verb, base, "--name", "mine", "--overwrite"))
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert "left alone, since mptctl did not write it: .env, .x.part, notes.txt and 2 more" in said
    assert all((folder / name).read_text() == name for name in foreign)
    assert not before & {path.name for path in (folder / "tensorboard").glob("events*")}
    new = {"best.pt", "recipe.yaml", "split.json", "environment.json"}
    new |= {path.name for path in (base / "runs").glob("split-*.arrow")}
    new |= set() if verb == "import" else {"last.pt", "metrics.jsonl"}
    foreign = {name.partition("/")[0] for name in foreign}
    found = {path.name for path in folder.iterdir()} - foreign
    assert found == new
    assert load_checkpoint(folder / "best.pt").meta.origin == ("imported" if verb == "import" else "trained")


@pytest.mark.parametrize(
    "left",
    [
        ["environment.json"],
        ["metrics.jsonl"],
        ["best.pt"],
        ["previous.pt"],
        ["best.pt", "last.pt", "previous.pt", "recipe.yaml", "split.json", "metrics.jsonl", "environment.json"],
        [".environment.json.abcd1234.part", "lock"],
        ["lock"],
        [],
    ],
)  # fmt: skip
def test_whatever_a_killed_run_left_can_be_overwritten(
    mptctl: CommandLine, base: Path, left: list[str]
) -> None:
    folder, source = base / "runs" / "mine", base / "runs" / "ref"
    folder.mkdir()
    shutil.copy(source / "last.pt", source / "previous.pt")
    for name in left:
        there = (source / name).is_file() and name != "lock"
        (folder / name).write_bytes(
            (source / name).read_bytes() if there else b"4711\n"[: 5 * (name == "lock")]
        )
    done = mptctl(*words("train-ref", base, "--name", "mine", "--overwrite"))
    assert done.returncode == 0, done.stderr
    assert "left alone" not in done.stderr
    assert load_checkpoint(folder / "last.pt").meta.global_step == 1


def test_environment_is_the_first_file_of_a_run(base: Path) -> None:
    folder = RunDir(base / "runs" / "first")
    folder.path.mkdir()
    folder.recipe.mkdir()  # what comes after it cannot be written
    with pytest.raises(Exception, match=r"recipe\.yaml"):
        folder.write_start("a: 1", "{}", torch.device("cpu"))
    assert [path.name for path in folder.path.iterdir() if path.is_file()] == ["environment.json"]
    folder.recipe.rmdir()
    folder.refuse_unusable("replace")


def test_a_name_of_two_parts_is_a_folder_below_a_folder(mptctl: CommandLine, base: Path) -> None:
    assert mptctl(*words("train-ref", base, "--name", "seed1/ref")).returncode == 0
    assert (base / "runs" / "seed1" / "ref" / "best.pt").is_file()
    assert mptctl(*words("train-old", base, "--name", "ref", "--overwrite")).returncode == 0
    assert load_checkpoint(base / "runs" / "ref" / "best.pt").meta.num_old == 5


@pytest.mark.parametrize("wrong", ["link", "foreign folder", "link inside", "linked page"])
def test_quickstart_overwrites_nothing_but_runs(mptctl: CommandLine, base: Path, wrong: str) -> None:
    runs, outside = base / "runs", base / "outside"
    for name in ("no-treatment", "mpt-kl"):
        shutil.copytree(runs / "ref", runs / name)
    if wrong == "linked page":
        (runs / "flips.html").symlink_to(outside / "thesis.txt")
    elif wrong == "link inside":
        (runs / "mpt-kl" / "best.pt").unlink()
        (runs / "mpt-kl" / "best.pt").symlink_to(outside / "best.pt")
    else:
        shutil.rmtree(runs / "mpt-kl")
        if wrong == "link":
            (runs / "mpt-kl").symlink_to(outside)
        else:
            (runs / "mpt-kl").mkdir()
            (runs / "mpt-kl" / "paper.tex").write_text("a draft")
    refused(mptctl, base, ["quickstart", "--run-root", str(runs), "--overwrite"])
