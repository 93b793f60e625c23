"""The three shapes of a DALI pipeline, and the sizes by which it cuts and scales as torchvision does."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mptctl.data.loading.part import BatchJob, LoadPlan
from mptctl.machine.facts import usable_cores

# The facts that DALI can be told about each picture; `Shape.names` says which of them a pipeline is told.
_INPUTS = {
    # name: (DALI's type, dimensions of one sample)
    "file": ("UINT8", 1),  # its name, or the bytes of a picture in a shard
    "anchor": ("INT32", 1),  # top and left of the part that is decoded
    "shape": ("INT32", 1),  # its height and width
    "canvas": ("INT32", 1),  # top and left of a canvas around the picture, see `pad_for_resize`
    "canvas_shape": ("INT32", 1),  # its height and width
    "picture": ("FLOAT", 1),  # top and left of the picture on that canvas
    "picture_end": ("FLOAT", 1),  # bottom and right of it
    "target": ("FLOAT", 1),  # height and width to resize it to
    "crop": ("INT32", 1),  # top and left of the centre crop that is cut out of that
    "row_gain": ("FLOAT", 3),  # factor of each row of the crop, (S, 1, 1)
    "column_gain": ("FLOAT", 3),  # factor of each column, (1, S, 1)
    "window": ("INT32", 1),  # top and left of the training window within, or partly beyond, the crop
    "flip": ("INT32", 0),
}


def _dali() -> Any:
    """NVIDIA's package, which takes a second to import and may not be installed."""
    from nvidia import dali

    return dali


class Shape(ABC):
    """The steps of a pipeline between decoding and normalising.

    Attributes:
        names: what it is told about each picture, in order.
    """

    names: tuple[str, ...]

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan

    @abstractmethod
    def inputs(self, job: BatchJob) -> dict[str, Any]:
        """Arrays of (b, ...) for one batch, by name, all but its paths."""

    @abstractmethod
    def pictures(self, encoded: Any, given: dict[str, Any], decoder: dict[str, Any]) -> Any:
        """DALI's nodes from the bytes of files to (S, S, 3) pictures.

        Args:
            encoded: node that gives each file's bytes.
            given: a node for each of ``names``.
            decoder: settings of DALI's decoders.
        """

    def _resize(self, pictures: Any, target: Any, **region: Any) -> Any:
        dali = _dali()
        cubic = self.plan.data.interpolation == "bicubic"
        # torchvision's scale is that of the rounded size, hence no sub-pixel scale.
        return dali.fn.resize(
            pictures,
            size=target,
            interp_type=dali.types.INTERP_CUBIC if cubic else dali.types.INTERP_LINEAR,
            antialias=True,
            subpixel_scale=False,
            **region,
        )


class StoredCrops(Shape):
    """Training crops of the picture as stored, resized afterwards; only the crop is decoded."""

    names = ("file", "anchor", "shape", "target", "flip")

    def inputs(self, job: BatchJob) -> dict[str, Any]:
        """The window of each picture."""
        views = job.views
        return {
            "anchor": np.stack([views.top, views.left], axis=1).astype(np.int32),
            "shape": np.stack([views.height, views.width], axis=1).astype(np.int32),
            "target": np.full((len(job.index), 2), self.plan.data.image_size, dtype=np.float32),
            "flip": views.flip.astype(np.int32),
        }

    def pictures(self, encoded: Any, given: dict[str, Any], decoder: dict[str, Any]) -> Any:
        """Decode the window, resize it."""
        dali = _dali()
        pictures = dali.fn.decoders.image_slice(
            encoded,
            given["anchor"],
            given["shape"],
            axes=[0, 1],
            normalized_anchor=False,
            normalized_shape=False,
            **decoder,
        )
        return self._resize(pictures, given["target"])


class CentreCrops(Shape):
    """Pictures resized and cropped at the centre; in training with a padded window of that."""

    def __init__(self, plan: LoadPlan) -> None:
        super().__init__(plan)
        self._has_window = plan.train and plan.data.augment == "pad-crop"
        self.names = ("file", "target", "crop", "flip", *(("window",) if self._has_window else ()))

    def inputs(self, job: BatchJob) -> dict[str, Any]:
        """The size that each picture is resized to, and where it is cropped."""
        target, crop = fitted_size(self._stored(job), self.plan.resize, self.plan.data.image_size)
        inputs = {"target": target, "crop": crop, "flip": job.views.flip.astype(np.int32)}
        if self._has_window:
            inputs["window"] = np.stack([job.views.top, job.views.left], axis=1).astype(np.int32)
        return inputs

    def pictures(self, encoded: Any, given: dict[str, Any], decoder: dict[str, Any]) -> Any:
        """Decode, resize, crop."""
        dali = _dali()
        pictures = self._resize(dali.fn.decoders.image(encoded, **decoder), given["target"])
        return self._window(dali.fn.slice(pictures, start=given["crop"], **self._cut), given)

    @property
    def _cut(self) -> dict[str, Any]:
        size = self.plan.data.image_size
        return {"shape": (size, size), "axes": [0, 1]}

    def _stored(self, job: BatchJob) -> Any:
        manifest = self.plan.split.manifest
        return np.stack([manifest.heights[job.index], manifest.widths[job.index]], axis=1)

    def _window(self, pictures: Any, given: dict[str, Any]) -> Any:
        dali = _dali()
        if not self._has_window:
            return pictures
        return dali.fn.slice(
            pictures, start=given["window"], out_of_bounds_policy="pad", fill_values=0, **self._cut
        )


class CentreCropsWithEdges(CentreCrops):
    """The same where edges of pictures that were made smaller are seen; see `pad_for_resize`."""

    def __init__(self, plan: LoadPlan) -> None:
        super().__init__(plan)
        self.names += ("canvas", "canvas_shape", "picture", "picture_end", "row_gain", "column_gain")

    def inputs(self, job: BatchJob) -> dict[str, Any]:
        """Also the canvas around each picture, and the factors of its outermost rows and columns."""
        inputs = super().inputs(job)
        size = self.plan.data.image_size
        return inputs | pad_for_resize(self._stored(job), inputs["target"], inputs["crop"], size)

    def pictures(self, encoded: Any, given: dict[str, Any], decoder: dict[str, Any]) -> Any:
        """Decode, put on a canvas, resize, crop, and make the outermost rows and columns right."""
        dali = _dali()
        pictures = dali.fn.slice(
            dali.fn.decoders.image(encoded, **decoder),
            start=given["canvas"],
            shape=given["canvas_shape"],
            axes=[0, 1],
            out_of_bounds_policy="pad",
            fill_values=0,
        )
        region = {"roi_start": given["picture"], "roi_end": given["picture_end"], "dtype": dali.types.FLOAT}
        pictures = dali.fn.slice(
            self._resize(pictures, given["target"], **region), start=given["crop"], **self._cut
        )
        rows, columns = given["row_gain"], given["column_gain"]
        if self.plan.device.type == "cuda":  # DALI multiplies what is on one device
            rows, columns = rows.gpu(), columns.gpu()
        return self._window(dali.fn.cast(pictures * rows * columns, dtype=dali.types.UINT8), given)


def shape_of(plan: LoadPlan) -> Shape:
    """The shape of a plan's pipeline."""
    if plan.crops_as_stored:
        return StoredCrops(plan)
    return CentreCropsWithEdges(plan) if shows_edges(plan) else CentreCrops(plan)


def build_pipeline(plan: LoadPlan, shape: Shape, source: Callable[[], list[Any]]) -> Any:
    """A DALI pipeline that turns the plan's inputs into (b, S, S, 3) normalised pictures.

    Args:
        plan: sizes, device and settings.
        shape: what is done with each picture.
        source: called for each batch; gives a list of what the shape's ``names`` say, or raises StopIteration
            at the end of a pass.
    """
    dali = _dali()
    data = plan.data
    share = math.ceil(plan.batch_size / plan.world_size)
    pipeline = dali.Pipeline(
        batch_size=max(1, min(share, plan.num_samples)),
        num_threads=data.threads or usable_cores(),
        device_id=(plan.device.index or 0) if plan.device.type == "cuda" else None,
        prefetch_queue_depth=data.prefetch,
    )
    with pipeline:
        nodes = dali.fn.external_source(
            source=source,
            num_outputs=len(shape.names),
            dtype=[getattr(dali.types, _INPUTS[name][0]) for name in shape.names],
            ndim=[_INPUTS[name][1] for name in shape.names],
        )
        given = dict(zip(shape.names, nodes, strict=True))
        encoded = given["file"]
        if not plan.split.manifest.shards:
            # A mapped file that shrinks while it is read kills the process; a file that is read does not.
            encoded = dali.fn.io.file.read(encoded, dont_use_mmap=True)
        if plan.transforms:  # which come before normalisation
            normalised: dict[str, Any] = {"dtype": dali.types.UINT8}
        else:
            normalised = {
                "mean": [255 * value for value in data.mean],
                "std": [255 * value for value in data.std],
                "dtype": dali.types.FLOAT16 if plan.dtype == torch.float16 else dali.types.FLOAT,
            }
        pictures = dali.fn.crop_mirror_normalize(
            shape.pictures(encoded, given, decoder_settings(plan)),
            mirror=given["flip"],
            output_layout="HWC",
            **normalised,
        )
        pipeline.set_outputs(pictures)
    pipeline.build()
    return pipeline


def can_decode(plan: LoadPlan, data: bytes) -> bool:
    """Tell whether DALI decodes one picture by itself; for naming the one on which a batch failed.

    Args:
        plan: device and settings.
        data: its file.
    """
    dali = _dali()
    device = (plan.device.index or 0) if plan.device.type == "cuda" else None
    pipeline = dali.Pipeline(batch_size=1, num_threads=1, device_id=device, prefetch_queue_depth=1)
    with pipeline:
        encoded = dali.fn.external_source(source=lambda: [np.frombuffer(data, dtype=np.uint8)])
        pipeline.set_outputs(dali.fn.decoders.image(encoded, **decoder_settings(plan)))
    pipeline.build()
    try:
        pipeline.run()
    except Exception:  # of any kind: each means that DALI does not decode this file
        return False
    return True


def decoder_settings(plan: LoadPlan) -> dict[str, Any]:
    """Settings of DALI's decoders, as keywords: where they decode, and how their pictures become Pillow's."""
    dali = _dali()
    on_gpu = plan.device.type == "cuda"
    settings: dict[str, Any] = {
        "device": "mixed" if on_gpu else "cpu",
        "output_type": dali.types.RGB,
        "adjust_orientation": False,  # as Pillow: the EXIF rotation is not applied
        "jpeg_fancy_upsampling": True,  # as libjpeg, on the GPU as well
    }
    if on_gpu:
        settings["hw_decoder_load"] = plan.data.hw_decoder_load
        # Memory for all but the few largest; for those the decoder grows.
        widths, heights = plan.split.manifest.widths, plan.split.manifest.heights
        settings["preallocate_width_hint"] = int(np.quantile(widths[plan.indices], 0.999))
        settings["preallocate_height_hint"] = int(np.quantile(heights[plan.indices], 0.999))
    return settings


def shows_edges(plan: LoadPlan) -> bool:
    """Tell whether edges of pictures that were made smaller are seen, and so have to be right."""
    if plan.crops_as_stored:
        return False
    manifest = plan.split.manifest
    shorter = np.minimum(manifest.heights[plan.indices], manifest.widths[plan.indices])
    size = plan.data.image_size
    reach = 2 if plan.data.interpolation == "bilinear" else 4  # pixels, on both sides together
    return plan.resize - size < reach and bool((shorter > size).any())


def fitted_size(
    sizes: NDArray[np.int32], resize: int, size: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """The sizes and places of `resize_and_crop`, in numbers.

    Args:
        sizes: (n, 2) height and width of each picture.
        resize: shorter side, in pixels.
        size: side of the crop.

    Returns:
        (n, 2) height and width after resizing, whole numbers, and (n, 2) top and left of the crop.
    """
    short = sizes.min(axis=1, keepdims=True)
    # torchvision cuts the long side's fraction off, and rounds half a pixel of the anchor to even.
    resized = np.where(sizes == short, resize, np.int64(resize) * sizes // short)
    crop = np.rint((resized - size) / 2.0)
    return resized.astype(np.float32), crop.astype(np.int32)


def pad_for_resize(
    stored: NDArray[np.int32], target: NDArray[np.float32], crop: NDArray[np.int32], size: int
) -> dict[str, Any]:
    """Put pictures on a canvas of zeros, so that DALI's filter sees zeros beyond their edges.

    Where a filter reaches over the edge, Pillow and torchvision leave out what is not there and scale the
    rest up; DALI repeats the edge. With zeros there, a factor on the outermost rows makes it the same.

    Args:
        stored: (n, 2) height and width of each picture.
        target: (n, 2) what it is resized to.
        crop: (n, 2) top and left of the crop that is cut out of that.
        size: side of the crop.

    Returns:
        ``canvas`` (n, 2) its top and left, ``canvas_shape`` (n, 2), ``picture`` and ``picture_end`` (n, 2)
        where the picture lies on it, ``row_gain`` (n, S, 1, 1) and ``column_gain`` (n, 1, S, 1).
    """
    # Where a side is not made smaller, repeating the edge and leaving it out are the same.
    margin = np.where(stored > target, np.ceil(stored / target), 0).astype(np.int32)
    rows = crop[:, :, None] + np.arange(size)  # (n, 2, S) place of each row and column
    outermost = (rows == 0) | (rows == target[:, :, None] - 1)
    gain = np.where(outermost, edge_renormalization(stored / target)[:, :, None], 1.0).astype(np.float32)
    return {
        "canvas": -margin,
        "canvas_shape": stored + 2 * margin,
        "picture": margin.astype(np.float32),
        "picture_end": (stored + margin).astype(np.float32),
        "row_gain": np.ascontiguousarray(gain[:, 0, :, None, None]),
        "column_gain": np.ascontiguousarray(gain[:, 1, None, :, None]),
    }


def edge_renormalization(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """All weights of the triangle filter around the outermost pixel, over those within the picture.

    Args:
        scale: pixels of the stored picture to one of the resized picture; where at most 1, the gain is 1.
    """
    scale = np.maximum(scale, 1.0)
    centre = scale / 2
    reach = int(np.ceil(1.5 * scale.max())) + 1
    places = np.arange(-reach, reach) + 0.5
    weights = np.maximum(0.0, 1 - np.abs(places - centre[..., None]) / scale[..., None])
    return np.where(scale > 1, weights.sum(-1) / (weights * (places > 0)).sum(-1), 1.0)
