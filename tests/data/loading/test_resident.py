"""Pictures in memory: arrays and files alike, and decoded files kept for the next run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mptctl.data.split import Split, make_split
from mptctl.machine import jpeg_decoder
from tests.common import MakeLoader
from tests.data.loading.test_loaders import one_epoch


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
    assert len(list(tmp_path.glob("*.npy"))) == 1
    other = "Pillow" if jpeg_decoder.jpeg_decoder().name == "torchcodec" else "torchcodec"
    has_package = jpeg_decoder.has_package
    monkeypatch.setattr(jpeg_decoder, "has_package", lambda name: name != "torchcodec" and has_package(name))
    if other == "torchcodec":
        pytest.skip("torchcodec is not installed")
    jpeg_decoder.jpeg_decoder.cache_clear()
    try:
        loader_of(split, "resident").open()
    finally:
        jpeg_decoder.jpeg_decoder.cache_clear()
    assert len(list(tmp_path.glob("*.npy"))) == 2


def test_arrays_go_through_resident_and_threaded_alike(tmp_path: Path, loader_of: MakeLoader) -> None:
    split = make_split("digits", run_root=tmp_path)
    for setting in ({"image_size": 8, "padding": 1}, {"image_size": 20}):
        one, _, index = one_epoch(loader_of(split, "resident", batch_size=100, **setting))
        other, _, other_index = one_epoch(loader_of(split, "threaded", batch_size=100, **setting))
        assert index == other_index
        assert (one - other).abs().max() < 0.001
