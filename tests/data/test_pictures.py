"""One picture from its bytes to the model's size, and the layouts in between."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from mptctl.data.manifest import NONSTANDARD, STANDARD
from mptctl.data.pictures import channels_first, crop_and_flip, decode, resize_and_crop
from mptctl.data.plan import Views
from mptctl.errors import DataError
from mptctl.recipe import DataRecipe
from mptctl.recipe.data import Interpolation
from tests.common import smooth_picture


def one_view(top: int, left: int, height: int, width: int, flip: bool) -> Views:
    numbers = (np.array([value], dtype=np.int64) for value in (top, left, height, width))
    return Views(*numbers, np.array([flip]))


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (b"\xff\xd8 no picture", STANDARD, r"\(.*--overwrite$"),
        (bytes(200), NONSTANDARD, r"\(no readable header of a picture\); run split"),
    ],
)
def test_what_cannot_be_decoded_is_named_in_one_line(data: bytes, kind: int, said: str) -> None:
    with pytest.raises(DataError, match=rf"^some/file\.jpg: cannot be decoded {said}") as caught:
        decode(data, kind, "some/file.jpg")
    assert "\n" not in str(caught.value)


def test_the_model_gets_channels_first_without_a_copy() -> None:
    pictures = torch.rand(2, 4, 4, 3)
    images = channels_first(pictures)
    assert images.shape == (2, 3, 4, 4)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert images.data_ptr() == pictures.data_ptr()


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(90, 70), (41, 300), (64, 64)])
def test_pictures_are_resized_to_the_bytes_of_torchvision_with_channels_first(
    size: tuple[int, int], interpolation: Interpolation
) -> None:
    """In memory the channels stay last, which is faster; nothing else changes, of whole pictures or windows."""
    how = {"interpolation": v2.InterpolationMode(interpolation), "antialias": True}
    picture = torch.from_numpy(np.array(smooth_picture(*size, 3)))
    planes = picture.permute(2, 0, 1).contiguous()
    fitted = v2.functional.center_crop(v2.functional.resize(planes, [40], **how), [32, 32])
    assert torch.equal(resize_and_crop(picture, 40, 32, interpolation), fitted.permute(1, 2, 0))
    data = DataRecipe(image_size=32, augment="random-resized-crop", interpolation=interpolation)
    for flip in (False, True):
        window = v2.functional.resize(planes[:, 3:33, 7:36].contiguous(), [32, 32], **how)
        seen = crop_and_flip(picture, data, one_view(3, 7, 30, 29, flip), 0)
        assert torch.equal(seen, (window.flip(-1) if flip else window).permute(1, 2, 0))
