"""Teachers: frozen, in the split's class order, averaged in an ensemble; and those of another split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from mptctl.data.classes import ClassSplit
from mptctl.data.loading.part import Batch
from mptctl.data.split import Split, make_split
from mptctl.errors import CheckpointError
from mptctl.models.checkpoint import CheckpointMeta, load_model, save_checkpoint
from mptctl.models.networks import build_model
from mptctl.names import Role
from mptctl.recipe import load_recipe
from mptctl.teachers.ensemble import Teachers
from mptctl.teachers.other_split import check_teacher_splits
from tests.common import CommandLine

CLASSES = ClassSplit(("a", "b", "c"), 2)
CPU = torch.device("cpu")


def make(path: Path, names: tuple[str, ...], seed: int, *overrides: str) -> Path:
    recipe = load_recipe("digits", overrides)
    torch.manual_seed(seed)
    model = build_model(recipe.model, len(names), recipe.data.image_size)
    for weights in model.parameters():
        if not weights.any():  # a head that begins with zeros answers 0 to everything
            torch.nn.init.normal_(weights, std=0.1)
    save_checkpoint(path, CheckpointMeta(recipe=recipe, class_names=names, num_old=2), model.state_dict())
    return path


def answers(path: Path, images: torch.Tensor) -> torch.Tensor:
    from mptctl.models.checkpoint import load_checkpoint

    with torch.no_grad():
        return load_model(load_checkpoint(path)).eval()(images)


def batch(images: torch.Tensor) -> Batch:
    index = torch.arange(len(images))
    return Batch(images, torch.zeros_like(index), index)


def teachers(old: Path | None, refs: list[Path], *overrides: str) -> Teachers:
    recipe = load_recipe("digits", overrides)
    return Teachers(old, refs, CLASSES, recipe.data, recipe.runtime, CPU)


def test_an_ensemble_answers_with_the_mean_of_its_members(tmp_path: Path) -> None:
    paths = [make(tmp_path / f"{i}.pt", CLASSES.names, i) for i in range(3)]
    images = torch.randn(4, 3, 8, 8)
    got = teachers(None, paths).logits(batch(images), set(Role))
    assert list(got) == [Role.REF]
    mean = torch.stack([answers(path, images) for path in paths]).mean(0)
    torch.testing.assert_close(got[Role.REF], mean, rtol=1e-5, atol=1e-6)


def test_only_what_is_wanted_is_computed_and_nothing_is_trained(tmp_path: Path) -> None:
    old = make(tmp_path / "old.pt", CLASSES.old, 0)
    ref = make(tmp_path / "ref.pt", CLASSES.names, 1)
    source = teachers(old, [ref])
    got = source.logits(batch(torch.randn(2, 3, 8, 8)), {Role.OLD})
    assert list(got) == [Role.OLD]
    assert got[Role.OLD].shape == (2, 2)
    assert not got[Role.OLD].requires_grad
    assert set(source.digests) == {"old", "ref"}
    assert not any(p.requires_grad for p in source.members[Role.REF][0].parameters())


def test_a_teacher_with_another_normalisation_sees_its_own(tmp_path: Path) -> None:
    path = make(tmp_path / "t.pt", CLASSES.names, 0, "data.mean=[0.1,0.2,0.3]", "data.std=[0.2,0.4,0.8]")
    pixels = torch.rand(3, 3, 8, 8)
    student, own = ((pixels - 0.5) / 0.5), torch.empty_like(pixels)
    for channel, (mean, std) in enumerate(((0.1, 0.2), (0.2, 0.4), (0.3, 0.8))):
        own[:, channel] = (pixels[:, channel] - mean) / std
    got = teachers(None, [path]).logits(batch(student), {Role.REF})[Role.REF]
    torch.testing.assert_close(got, answers(path, own), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("arch", ["resnet18", pytest.param("vit_b_16", marks=pytest.mark.nightly)])
def test_a_teacher_in_bfloat16_answers_to_the_bit_as_autocast_would(tmp_path: Path, arch: str) -> None:
    size = 32 if arch == "vit_b_16" else 8
    keys = (f"model.arch={arch}", f"data.image_size={size}")
    path = make(tmp_path / "t.pt", CLASSES.names, 0, *keys)
    images = torch.randn(4, 3, size, size).to(memory_format=torch.channels_last)
    source = teachers(None, [path], *keys, "runtime.teacher_precision=bf16")
    got = source.logits(batch(images), {Role.REF})[Role.REF]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = answers(path, images).float()
    assert got.dtype == torch.float32
    assert torch.equal(got, expected)
    assert not torch.equal(got, answers(path, images))


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
    [("train-mpt", "old"), ("train-mpt", "ref"), ("train-baseline pct-kl", "old"), ("tune --k 0,4", "ref")],
)
def test_verbs_that_learn_from_teachers_refuse_them(
    mptctl: CommandLine, digits: Split, tmp_path: Path, verb: str, other: str
) -> None:
    theirs = make_split("digits", run_root=tmp_path / "theirs", seed=3)
    named = {name: teacher(digits.run_root, name, digits).parent for name in ("old", "ref")}
    foreign = teacher(tmp_path / "theirs", other, theirs)
    named[other] = foreign.parent
    flags = [f"--{name}={path}" for name, path in named.items() if "pct" not in verb or name == "old"]
    words = (*verb.split(), *flags, "--run-root", digits.run_root, "--device", "cpu")
    for way in (("--dry-run",), ()):
        done = mptctl(*words, *way)
        assert (done.returncode, done.stdout) == (5, ""), done.stderr
        assert f"mptctl: {foreign}: its split holds out other pictures (seed 3, " in done.stderr
    (foreign.parent / "split.json").unlink()
    done = mptctl(*words, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f"warning: {foreign}: was trained on another split than that of {digits.run_root}" in done.stdout
