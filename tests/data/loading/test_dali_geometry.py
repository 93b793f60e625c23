"""Sizes and places for DALI are those of torchvision, and the outermost pixels weigh as much as the others."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision.transforms.v2 import functional as vision

from mptctl.data.loading.dali_pipeline import compute_canvas, compute_edge_gain, compute_resize_and_crop
from mptctl.data.pictures import resize_and_crop


@given(height=st.integers(1, 90), width=st.integers(1, 90), size=st.integers(2, 40), more=st.integers(0, 9))
def test_the_resized_size_and_the_crop_are_torchvisions(
    height: int, width: int, size: int, more: int
) -> None:
    resize = size + more
    target, crop = compute_resize_and_crop(np.array([[height, width]], dtype=np.int32), resize, size)
    resized = vision.resize(torch.zeros(3, height, width, dtype=torch.uint8), [resize])
    assert target[0].tolist() == list(resized.shape[1:])
    # A picture whose pixels say where they are: its corner says where it was cut.
    rows, columns = torch.meshgrid(*(torch.arange(n) for n in resized.shape[1:]), indexing="ij")
    place = torch.stack([rows, columns, rows], dim=-1)
    assert resize_and_crop(place, resize, size)[0, 0, :2].tolist() == crop[0].tolist()


def test_the_outermost_pixel_loses_what_lies_beyond_the_edge() -> None:
    gain = compute_edge_gain(np.array([0.5, 1.0, 2.0, 4.0]))
    assert gain[:2].tolist() == [1.0, 1.0]
    # At scale 2 the centre is one pixel from the edge: weights 1/4, 3/4, 3/4, 1/4, the first one beyond the edge.
    assert gain[2] == 2 / (2 - 0.25)
    assert gain[3] > 1


def test_only_the_outermost_rows_of_a_picture_that_is_made_smaller_are_scaled() -> None:
    stored = np.array([[64, 96], [16, 24]], dtype=np.int32)
    target, crop = compute_resize_and_crop(stored, 32, 32)
    found = compute_canvas(stored, target, crop, 32)
    rows, columns = found["row_gain"][:, :, 0, 0], found["column_gain"][:, 0, :, 0]
    assert (rows[0, [0, -1]] > 1).all()
    assert (rows[0, 1:-1] == 1).all()
    assert (columns[0] == 1).all()  # the crop leaves the left and the right edge out
    assert (rows[1] == 1).all()
    assert (found["canvas_shape"] == stored - 2 * found["canvas"]).all()
    assert (found["canvas"][1] == 0).all()
