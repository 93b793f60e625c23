"""Teachers of another split: silent where nothing held out trained them, a warning where it may have, else refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from mptctl.data.split import Split, make_split
from mptctl.errors import CheckpointError
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.networks import build_model
from mptctl.recipe import load_recipe
from mptctl.teachers.other_split import check_teacher_splits
from tests.common import CommandLine


def meta_of(split: Split, fingerprint: str | None, *, only_old: bool = True) -> CheckpointMeta:
    names = split.classes.old if only_old else split.classes.names
    return CheckpointMeta(
        recipe=load_recipe("digits", ("runtime.seed=7",)),
        class_names=names,
        num_old=split.classes.num_old,
        split_fingerprint=fingerprint,
    )


def teacher(root: Path, name: str, split: Split, *, alone: bool = False) -> Path:
    """An untrained model that says that it is of a split, in a run folder with a copy of that, or alone."""
    meta = meta_of(split, split.fingerprint, only_old=name == "old")
    model = build_model(meta.recipe.model, len(meta.class_names), meta.recipe.data.image_size)
    path = root / name / "best.pt"
    save_checkpoint(path, meta, model.state_dict())
    if not alone:
        path.with_name("split.json").write_text(split.file.model_dump_json(indent=2))
    return path


def said(split: Split, theirs: Split, tmp_path: Path, *, alone: bool = False) -> list[str]:
    path = teacher(tmp_path / "theirs", "old", theirs, alone=alone)
    return check_teacher_splits(split, {path: meta_of(theirs, theirs.fingerprint)})


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        ({}, "silent"),
        ({"old_fraction": 0.3}, "silent"),  # the same pictures in the same parts
        ({"seed": 3}, "seed 3, val_fraction 0.1"),
        ({"val_fraction": 0.05}, "seed 0, val_fraction 0.05"),
        ({"val_fraction": 0.0}, "seed 0, val_fraction 0"),
        ({"val_fraction": 0.2}, "warning"),  # holds out the same pictures, and more
    ],
    ids=str,
)
def test_what_is_held_out_decides(digits: Split, tmp_path: Path, keys: dict[str, Any], outcome: str) -> None:
    theirs = make_split("digits", run_root=tmp_path / "theirs", **keys)
    if outcome == "silent":
        assert said(digits, theirs, tmp_path) == []
    elif outcome == "warning":
        assert set(digits.indices("val")) < set(theirs.indices("val"))
        (warning,) = said(digits, theirs, tmp_path)
        assert warning == (
            f"warning: {tmp_path}/theirs/old/best.pt: was trained on another split than that of {digits.run_root}: "
            "pictures held out here may have trained it"
        )
    else:
        assert not set(digits.indices("val")) <= set(theirs.indices("val"))
        with pytest.raises(
            CheckpointError, match=r"/theirs/old/best\.pt: its split holds out other"
        ) as error:
            said(digits, theirs, tmp_path)
        assert f"({outcome}) than that of {digits.run_root} (seed 0, val_fraction 0.1)" in str(error.value)


def test_characters_of_another_seed_are_other_pictures(tmp_path: Path) -> None:
    ours, theirs = (make_split("characters", run_root=tmp_path / str(seed), seed=seed) for seed in (0, 1))
    with pytest.raises(CheckpointError, match=r"\(seed 1, val_fraction 0\.2\)"):
        said(ours, theirs, tmp_path)


def test_a_folder_of_pictures_elsewhere_may_be_an_earlier_one(
    folder: Path, own_folder: Path, tmp_path: Path
) -> None:
    next((own_folder / "train").glob("*/*")).unlink()
    ours = make_split("imagefolder", run_root=tmp_path / "ours", data_root=folder, seed=1)
    theirs = make_split("imagefolder", run_root=tmp_path / "theirs", data_root=own_folder)
    assert len(said(ours, theirs, tmp_path)) == 1


def test_a_checkpoint_alone_and_an_imported_model_are_taken(digits: Split, tmp_path: Path) -> None:
    theirs = make_split("digits", run_root=tmp_path / "theirs", seed=3)
    assert len(said(digits, theirs, tmp_path, alone=True)) == 1
    assert check_teacher_splits(digits, {Path("imported"): meta_of(digits, None)}) == []


@pytest.mark.parametrize(
    ("verb", "other"),
    [
        (("train-mpt",), "old"),
        (("train-mpt",), "ref"),
        (("train-baseline", "pct-kl"), "old"),
        (("tune", "--k", "0,4"), "ref"),
    ],
    ids=str,
)
def test_verbs_that_learn_from_teachers_refuse_them(
    mptctl: CommandLine, digits: Split, tmp_path: Path, verb: tuple[str, ...], other: str
) -> None:
    torch.manual_seed(0)
    theirs = make_split("digits", run_root=tmp_path / "theirs", seed=3)
    fit = {name: teacher(digits.run_root, name, digits).parent for name in ("old", "ref")}
    foreign = teacher(tmp_path / "theirs", other, theirs)
    named = {name: str(path) for name, path in (fit | {other: foreign.parent}).items()}
    flags = ("--old", named["old"], *(() if verb[0] == "train-baseline" else ("--ref", named["ref"])))
    for way in (("--dry-run",), ()):
        done = mptctl(*verb, *flags, "--run-root", digits.run_root, "--device", "cpu", *way)
        assert (done.returncode, done.stdout) == (5, ""), done.stderr
        assert f"mptctl: {foreign}: its split holds out other pictures (seed 3, " in done.stderr
    copied = foreign.parent / "split.json"
    copied.unlink()
    done = mptctl(*verb, *flags, "--run-root", digits.run_root, "--device", "cpu", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f"warning: {foreign}: was trained on another split than that of {digits.run_root}" in done.stdout
