"""The cache of teacher logits: the same numbers with and without it, and no trust in what is on the disk."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mptctl.data.held_split import relocate
from mptctl.data.split import Split, make_split
from mptctl.machine.jpeg_decoder import JpegDecoder
from mptctl.names import Role
from mptctl.recipe import Recipe
from mptctl.teachers.cache_files import KEY_FILE
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import make_folder, short_recipe, smooth_picture
from tests.teachers.conftest import BOTH, OLD, cached, files, opened, update


@pytest.mark.parametrize(
    ("method", "accumulate"), [("mpt-kl", 1), ("mpt-lm", 1), ("pct-naive", 1), ("mpt-kl", 3)]
)
def test_in_float32_weights_are_bit_equal_with_and_without(
    split: Split, method: str, accumulate: int
) -> None:
    def trained(name: str, *options: str) -> dict[str, torch.Tensor]:
        return update(split, name, f"optim.accumulate={accumulate}", *options, method=method)

    plain = trained("plain")
    options = ("runtime.cache_teachers=true", "runtime.cache_precision=fp32")
    first, second = trained("first", *options), trained("second", *options)
    assert files(split)
    for name, weights in plain.items():
        assert torch.equal(weights, first[name]), name
        assert torch.equal(weights, second[name]), name


def test_in_half_precision_who_fills_the_cache_does_not_matter(split: Split) -> None:
    # Few steps: training lets any difference grow.
    plain = update(split, "plain", "optim.max_steps=3")
    first = update(split, "first", "optim.max_steps=3", "runtime.cache_teachers=true")
    second = update(split, "second", "optim.max_steps=3", "runtime.cache_teachers=true")
    assert all(torch.equal(weights, second[name]) for name, weights in first.items())
    apart = max(float((weights - first[name]).abs().max()) for name, weights in plain.items())
    assert 0 < apart < 0.01, apart


def test_each_batch_is_computed_once(split: Split) -> None:
    source, teachers, loader = opened(split, short_recipe())
    answers = [source.logits(b, BOTH) for b in loader.epoch(0)]
    assert teachers.computed == 2 * loader.steps_per_epoch
    again, others, _ = opened(split, short_recipe())
    for batch, before in zip(loader.epoch(0), answers, strict=True):
        now = again.logits(batch, BOTH)
        assert torch.equal(now[Role.OLD], before[Role.OLD])
        assert torch.equal(now[Role.REF], before[Role.REF])
        assert now[Role.OLD].dtype == torch.float32
        assert now[Role.OLD].shape == (64, split.classes.num_old)
    assert others.computed == 0


def test_a_pass_that_begins_in_the_middle_finds_its_place(split: Split) -> None:
    source, teachers, loader = opened(split, short_recipe())
    late = list(loader.epoch(1, 5))
    for batch in late:
        source.logits(batch, OLD)
    for batch in loader.epoch(1):
        direct = teachers.teachers.logits(batch, OLD)[Role.OLD]
        kept = source.logits(batch, OLD)[Role.OLD]
        assert torch.allclose(direct, kept, rtol=2**-10, atol=1e-6)
    assert teachers.computed == loader.steps_per_epoch


@pytest.mark.parametrize("how", ["flip", "cut", "zeros", "gone", "stranger"])
def test_a_damaged_cache_is_computed_again(split: Split, how: str) -> None:
    source, teachers, loader = opened(split, short_recipe())
    expected = [source.logits(b, OLD)[Role.OLD] for b in loader.epoch(0)]
    (path,) = files(split)
    content = path.read_bytes()
    if how == "gone":
        shutil.rmtree(path.parent)
    else:
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        damages = {"flip": flipped, "cut": content[:100], "zeros": bytes(len(content)), "stranger": b"text"}
        path.write_bytes(damages[how])
    for computed in (1 if how == "flip" else loader.steps_per_epoch, 0):
        again, others, _ = opened(split, short_recipe())
        for batch, logits in zip(loader.epoch(0), expected, strict=True):
            assert torch.equal(again.logits(batch, OLD)[Role.OLD], logits)
        assert others.computed == computed
    assert teachers.computed == loader.steps_per_epoch


KEYS = {
    "layout", "role", "teachers", "split", "part", "samples", "seed", "data", "loader", "batch", "kept as",
    "computed as", "device", "torch",
}  # fmt: skip
# What changes each key but those of the teachers, the split, the role and the layout: of the plan, or a word of --set.
CHANGES: list[tuple[set[str], dict[str, object], str]] = [
    ({"part", "samples"}, {"part": "test"}, ""),
    ({"samples"}, {"num_classes": 5}, ""),
    ({"seed"}, {"seed": 1}, ""),
    ({"batch"}, {"batch_size": 32}, ""),
    ({"batch"}, {"world_size": 2}, ""),
    ({"batch"}, {}, "optim.accumulate=2"),
    ({"data"}, {}, "data.padding=2"),
    ({"loader"}, {}, "data.loader=threaded"),
    ({"kept as"}, {}, "runtime.cache_precision=fp32"),
    ({"computed as"}, {}, "runtime.teacher_precision=bf16"),
    ({"computed as"}, {}, "runtime.channels_last=false"),
    ({"computed as"}, {}, "runtime.deterministic=true"),
]


def key_of(split: Split, recipe: Recipe, **changes: Any) -> tuple[Path, dict[str, Any]]:
    """The cache's folder of the old model, and the key in it, after the first batch of a plan was asked for."""
    source, _, loader = opened(split, recipe, **changes)
    source.logits(next(iter(loader.epoch(0))), OLD)
    folder = source.files[Role.OLD].folder
    key: dict[str, Any] = json.loads((folder / KEY_FILE).read_text(encoding="utf-8"))
    return folder, key


@pytest.mark.parametrize(("keys", "changes", "word"), CHANGES)
def test_each_key_changes_the_folder(
    split: Split, keys: set[str], changes: dict[str, object], word: str
) -> None:
    folder, before = key_of(split, short_recipe())
    other, after = key_of(split, short_recipe(*filter(None, [word])), **changes)
    assert set(before) == set(after) == KEYS
    assert {key for key in KEYS if before[key] != after[key]} == keys
    assert other != folder


def test_threads_and_torch_change_the_folder(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, before = key_of(split, short_recipe())
    monkeypatch.setattr(torch, "__version__", "another")
    with_torch, _ = key_of(split, short_recipe())
    monkeypatch.undo()
    torch.set_num_threads(2)
    try:
        with_threads, after = key_of(split, short_recipe())
    finally:
        torch.set_num_threads(1)
    assert after["device"] != before["device"]
    assert len({folder, with_torch, with_threads}) == 3


def test_a_pass_without_augmentation_has_one_folder_whatever_the_seed(split: Split) -> None:
    one, other = (key_of(split, short_recipe(), train=False, seed=seed)[0] for seed in (0, 1))
    assert one == other


def test_another_teacher_has_another_answer(split: Split) -> None:
    runs = split.run_root
    source, _, loader = opened(split, short_recipe())
    batch = next(iter(loader.epoch(0)))
    source.logits(batch, BOTH)
    shutil.rmtree(runs / "ref")
    recipe = short_recipe("optim.max_steps=2", "runtime.seed=7")
    train(RunRequest(recipe, split, runs / "ref"), Observer())
    other, teachers, _ = opened(split, short_recipe())
    other.logits(batch, BOTH)
    assert teachers.computed == 1  # the reference; the old model is the same


def train_teachers(split: Split, recipe: Recipe) -> None:
    for name, only_old in (("old", True), ("ref", False)):
        train(RunRequest(recipe, split, split.run_root / name, only_old_classes=only_old), Observer())


def test_another_decoder_of_the_same_pictures_has_another_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow and torchcodec decode JPEG files to other grey levels, so logits of one are not those of the other."""
    data = make_folder(tmp_path / "pictures", classes=2, train=64, val=2, size=8)
    split = make_split("imagefolder", run_root=tmp_path / "runs", data_root=data, val_fraction=0.0)
    recipe = short_recipe("optim.max_steps=2", "data.loader=threaded")
    train_teachers(split, recipe)
    folders = set()
    for name in ("Pillow", "torchcodec"):
        monkeypatch.setattr(
            "mptctl.data.loading.base.jpeg_decoder", lambda name=name: JpegDecoder(name, None)
        )
        folders.add(key_of(split, recipe)[0])
    assert len(folders) == 2


def test_pictures_replaced_at_the_same_size_have_another_answer(tmp_path: Path) -> None:
    def split_of_inverted(inverted: bool) -> Split:
        for number, part in enumerate(("train",) * 128 + ("val",) * 2):
            file = tmp_path / "data" / part / f"class{number % 2}" / f"{number}.bmp"
            file.parent.mkdir(parents=True, exist_ok=True)
            picture = np.asarray(smooth_picture(8, 8, number))
            Image.fromarray(255 - picture if inverted else picture).save(file)
        runs, data = tmp_path / "runs", tmp_path / "data"
        return make_split("imagefolder", run_root=runs, data_root=data, val_fraction=0.0, overwrite=True)

    split, recipe = split_of_inverted(False), short_recipe("optim.max_steps=2")
    train_teachers(split, recipe)
    source, _, loader = opened(split, recipe)
    source.logits(next(iter(loader.epoch(0))), OLD)
    replaced = split_of_inverted(True)
    assert replaced.fingerprint == split.fingerprint
    other, teachers, loader = opened(replaced, recipe)
    batch = next(iter(loader.epoch(0)))
    kept, expected = other.logits(batch, OLD)[Role.OLD], teachers.teachers.logits(batch, OLD)[Role.OLD]
    torch.testing.assert_close(kept, expected, rtol=2**-10, atol=1e-6)
    assert teachers.computed == 1
    copied = Path(shutil.copytree(tmp_path / "data", tmp_path / "copied"))  # with the same times
    again, others, loader = opened(relocate(replaced, copied), recipe)
    again.logits(next(iter(loader.epoch(0))), OLD)
    assert others.computed == 0


def test_a_batch_of_another_plan_is_refused(split: Split) -> None:
    source, _, loader = opened(split, short_recipe())
    batch = next(iter(loader.epoch(0)))
    source.logits(batch, OLD)
    others = (replace(batch, epoch=1), replace(batch, position=64), replace(batch, index=batch.index.flip(0)))
    for other in (*others, replace(batch, position=loader.plan.num_samples - 32)):
        with pytest.raises(ValueError, match=f"not one of epoch {other.epoch} of the plan"):
            source.logits(other, OLD)


def test_a_cache_that_was_not_opened_is_not_written(split: Split) -> None:
    source, _, loader = cached(split, short_recipe())
    with pytest.raises(RuntimeError, match="asked before it was opened"):
        source.logits(next(iter(loader.epoch(0))), OLD)
    assert not files(split)
