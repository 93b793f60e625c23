"""Which loader is taken, and what it is told of its part."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from mptctl.data.loading.choose import LOADERS
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split, make_split
from mptctl.errors import UsageError
from mptctl.machine.jpeg_decoder import JpegDecoder
from mptctl.names import LoaderName
from mptctl.recipe import DataRecipe
from tests.common import CPU, KINDS, MakeLoader
from tests.data.loading.test_loaders import one_epoch

CROP = {"augment": "random-resized-crop"}


@pytest.mark.parametrize(
    ("setting", "kind", "words"),
    [
        ({}, "resident", "below data.resident_limit_gb"),
        ({"resident_limit_gb": 1e-6}, "dali-cpu", "above data.resident_limit_gb"),
        (CROP, "dali-cpu", "random-resized-crop needs pictures as stored"),
    ],
)
def test_the_choice_comes_with_its_reason(
    split: Split, loader_of: MakeLoader, setting: dict[str, object], kind: str, words: str
) -> None:
    loader = loader_of(split, "auto", **setting)
    assert loader.name == kind
    assert loader.reason.startswith(f"{kind} loader: ")
    assert words in loader.reason


def test_what_a_short_last_batch_leaves_out_is_said(split: Split, loader_of: MakeLoader) -> None:
    assert "the last 5 samples" in loader_of(split, "threaded", batch_size=7).reason
    assert "the last" not in loader_of(split, "threaded", batch_size=8).reason
    assert "the last" not in loader_of(split, "threaded", batch_size=7, part="test", train=False).reason


def test_without_dali_the_choice_is_threaded(
    split: Split, loader_of: MakeLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name.startswith("nvidia") else real(name)
    )
    loader = loader_of(split, "auto", **CROP)
    assert loader.name == "threaded"
    assert "DALI is not installed" in loader.reason
    with pytest.raises(UsageError, match="not installed"):
        loader_of(split, "dali")


def test_what_a_loader_cannot_do_is_a_usage_error(
    split: Split, loader_of: MakeLoader, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"data\.loader resident"):
        loader_of(split, "resident", **CROP)
    with pytest.raises(UsageError, match=r"data\.loader dali"):
        loader_of(make_split("digits", run_root=tmp_path / "digits"), "dali")
    with pytest.raises(UsageError, match="more than the 40 samples"):
        loader_of(split, "threaded", batch_size=41)
    with pytest.raises(UsageError, match="batch normalisation"):
        loader_of(split, "threaded", batch_size=5, world_size=3)
    with pytest.raises(UsageError, match=r"data\.eval_resize 16"):
        loader_of(split, "threaded", part="test", train=False, eval_resize=16)


def plan_of(split: Split, kind: str = "auto", *, rank: int = 0, **changes: object) -> LoadPlan:
    data = DataRecipe.model_validate({"loader": kind, **changes})
    return LoadPlan(split, data, "train", 7, 0, True, CPU, rank=rank, world_size=2 if rank else 1)


@pytest.mark.parametrize(("setting", "padding"), [({}, 4), ({"padding": 2}, 2), ({"augment": "none"}, 0)])
def test_padding_is_counted_where_windows_reach_over_the_edge(
    split: Split, setting: dict[str, object], padding: int
) -> None:
    assert plan_of(split, **setting).resident_bytes == 40 * 3 * (32 + 2 * padding) ** 2


def test_a_worker_that_there_is_not_is_refused(split: Split) -> None:
    with pytest.raises(UsageError, match="worker 2 of 2"):
        plan_of(split, rank=2)


@pytest.mark.parametrize("kind", [*KINDS, "auto"])
def test_a_loader_is_made_without_decoding_anything(
    split: Split, loader_of: MakeLoader, tmp_path: Path, kind: str
) -> None:
    loader = loader_of(split, kind, batch_size=7)
    assert not list(tmp_path.iterdir())
    assert loader.reason.startswith(f"{loader.name} loader: ")
    assert (loader.steps_per_epoch, loader.plan.num_samples) == (5, 40)


def test_a_recipe_can_name_every_kind_and_no_other() -> None:
    assert {"auto", *(kind.recipe_name for kind in LOADERS)} == set(get_args(LoaderName))


def test_the_last_kind_serves_every_plan(split: Split, tmp_path: Path) -> None:
    digits = make_split("digits", run_root=tmp_path)
    for plan in (plan_of(split, "auto", **CROP), plan_of(digits, "auto", **CROP), plan_of(digits, "auto")):
        assert LOADERS[-1].why_not(plan, is_asked=False) is None


def test_decoded_pictures_are_kept_and_used_again(
    split: Split, loader_of: MakeLoader, tmp_path: Path
) -> None:
    images, _, _ = one_epoch(loader_of(split, "resident"))
    (kept,) = tmp_path.glob("*.npy")
    content = np.load(kept)
    np.save(kept, 255 - content)
    again, _, _ = one_epoch(loader_of(split, "resident"))
    assert not torch.equal(again, images)  # it was read from there
    kept.write_bytes(kept.read_bytes()[:1000])
    assert torch.equal(one_epoch(loader_of(split, "resident"))[0], images)  # damaged: made again


def test_pictures_of_another_decoder_are_decoded_again(
    split: Split, loader_of: MakeLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader_of(split, "resident").open()
    for place in ("mptctl.data.pictures", "mptctl.data.loading.resident", "mptctl.data.loading.base"):
        monkeypatch.setattr(f"{place}.jpeg_decoder", lambda: JpegDecoder("Pillow", None))
    loader_of(split, "resident").open()
    assert len(list(tmp_path.glob("*.npy"))) == 2


def test_arrays_go_through_resident_and_threaded_alike(tmp_path: Path, loader_of: MakeLoader) -> None:
    split = make_split("digits", run_root=tmp_path)
    for setting in ({"image_size": 8, "padding": 1}, {"image_size": 20}):
        one, _, index = one_epoch(loader_of(split, "resident", batch_size=100, **setting))
        other, _, other_index = one_epoch(loader_of(split, "threaded", batch_size=100, **setting))
        assert index == other_index
        assert (one - other).abs().max() < 0.001
