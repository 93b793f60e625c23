"""One picture from its bytes to the model's size, and the layouts in between."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from mptctl.data.manifest import NONSTANDARD, STANDARD
from mptctl.data.pictures import channels_first, crop_and_flip, decode, resize_and_crop
from mptctl.data.plan import Views
from mptctl.errors import DataError
from mptctl.recipe import DataRecipe
from tests.common import smooth_picture

PICTURE = smooth_picture(50, 70, 0)


def encoded(form: str) -> bytes:
    stream = io.BytesIO()
    PICTURE.save(stream, form)
    return stream.getvalue()


def one_view(top: int, left: int, height: int, width: int, flip: bool) -> Views:
    numbers = (np.array([value], dtype=np.int64) for value in (top, left, height, width))
    return Views(*numbers, np.array([flip]))


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
@pytest.mark.parametrize("kind", [STANDARD, NONSTANDARD])
def test_a_picture_is_height_by_width_by_colour_whoever_decodes_it(form: str, kind: int) -> None:
    data = encoded(form)
    found = decode(data, kind, "a name")
    np.testing.assert_array_equal(found.numpy(), np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


def test_what_cannot_be_decoded_is_named_in_one_line() -> None:
    with pytest.raises(DataError, match=r"^some/file\.jpg: cannot be decoded \(.*--overwrite$") as caught:
        decode(b"\xff\xd8 no picture", STANDARD, "some/file.jpg")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("flip", [False, True])
def test_a_window_over_the_edge_sees_zeros_there(flip: bool) -> None:
    picture = torch.from_numpy(np.array(PICTURE))[:32, :32]
    found = crop_and_flip(picture, DataRecipe(image_size=32), one_view(-3, 2, 32, 32, flip), 0)
    found = found.flip(1) if flip else found
    assert not found[:3].any()
    assert not found[:, -2:].any()
    assert torch.equal(found[3:, :-2], picture[:29, 2:])


def test_a_resized_crop_is_of_the_picture_as_stored() -> None:
    picture = torch.from_numpy(np.array(PICTURE))
    data = DataRecipe(image_size=16, augment="random-resized-crop")
    found = crop_and_flip(picture, data, one_view(10, 20, 16, 16, False), 0)
    assert torch.equal(found, picture[10:26, 20:36])  # as large as the model's input: nothing to resize
    assert crop_and_flip(picture, data, one_view(0, 0, 50, 70, False), 0).shape == (16, 16, 3)


def test_the_model_gets_channels_first_without_a_copy() -> None:
    pictures = torch.rand(2, 4, 4, 3)
    images = channels_first(pictures)
    assert images.shape == (2, 3, 4, 4)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert images.data_ptr() == pictures.data_ptr()


@pytest.mark.parametrize("size", [(90, 70), (41, 300), (64, 64)])
def test_pictures_are_resized_to_the_bytes_of_torchvision_with_channels_first(size: tuple[int, int]) -> None:
    """In memory the channels stay last, which is faster; nothing else changes, of whole pictures or windows."""
    picture = torch.from_numpy(np.array(smooth_picture(*size, 3)))
    planes = picture.permute(2, 0, 1).contiguous()
    fitted = v2.functional.center_crop(v2.functional.resize(planes, [40], antialias=True), [32, 32])
    assert torch.equal(resize_and_crop(picture, 40, 32), fitted.permute(1, 2, 0))
    data = DataRecipe(image_size=32, augment="random-resized-crop")
    for flip in (False, True):
        window = v2.functional.resize(planes[:, 3:33, 7:36].contiguous(), [32, 32], antialias=True)
        seen = crop_and_flip(picture, data, one_view(3, 7, 30, 29, flip), 0)
        assert torch.equal(seen, (window.flip(-1) if flip else window).permute(1, 2, 0))


def test_bytes_that_are_no_picture_are_named_without_their_address() -> None:
    with pytest.raises(
        DataError, match=r"^x\.jpg: cannot be decoded \(no readable header of a picture\); run split"
    ):
        decode(bytes(200), NONSTANDARD, "x.jpg")
