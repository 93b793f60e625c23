"""Teachers: frozen, in the split's class order, in the student's normalisation, averaged in an ensemble."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mptctl.data.classes import ClassSplit
from mptctl.data.loading.part import Batch
from mptctl.errors import CheckpointError
from mptctl.models.checkpoint import CheckpointMeta, load_model, save_checkpoint
from mptctl.models.networks import build_model
from mptctl.names import Role
from mptctl.recipe import load_recipe
from mptctl.teachers.ensemble import Teachers

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


def test_a_teacher_of_another_size_or_other_classes_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "t.pt", CLASSES.names, 0)
    with pytest.raises(CheckpointError, match=r"was trained on 8 pixels, this recipe has 16"):
        teachers(None, [path], "data.image_size=16")
    with pytest.raises(CheckpointError, match=r"knows beside the split c"):
        teachers(path, [])
    other = make(tmp_path / "o.pt", ("a", "x"), 0)
    with pytest.raises(CheckpointError, match=r"does not know b; it knows beside the split x"):
        teachers(other, [])
