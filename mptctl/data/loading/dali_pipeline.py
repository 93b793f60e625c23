"""Builds DALI pipelines, and computes sizes and places so that they resize and crop as torchvision does."""

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

# Inputs of pipelines for each picture; `Geometry.names` lists those of one kind of pipeline.
_INPUTS = {
    # name: (DALI's type, dimensions of one sample)
    "file": ("UINT8", 1),  # name of the file, or the bytes of a picture in a shard
    "anchor": ("INT32", 1),  # top and left of the part that is decoded
    "shape": ("INT32", 1),  # height and width of that part
    "canvas": ("INT32", 1),  # top and left of a canvas around the picture, see `compute_canvas`
    "canvas_shape": ("INT32", 1),  # height and width of that canvas
    "picture": ("FLOAT", 1),  # top and left of the picture on that canvas
    "picture_end": ("FLOAT", 1),  # bottom and right of the picture on that canvas
    "target": ("FLOAT", 1),  # height and width that the picture is resized to
    "crop": ("INT32", 1),  # top and left of the centre crop in the resized picture
    "row_gain": ("FLOAT", 3),  # factor of each row of the crop, (S, 1, 1)
    "column_gain": ("FLOAT", 3),  # factor of each column of the crop, (1, S, 1)
    "window": ("INT32", 1),  # top and left of the training window in the crop, which it may leave
    "flip": ("INT32", 0),  # 1: mirrored left to right
}


class Geometry(ABC):
    """The decoding, resizing and cropping of a pipeline.

    Args:
        plan: picture sizes, augmentation and device.

    Attributes:
        names: names of `_INPUTS` that the pipeline is told about each picture, in order.
    """

    names: tuple[str, ...]

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan

    @abstractmethod
    def inputs(self, job: BatchJob) -> dict[str, Any]:
        """Return the inputs for one batch by name, all but ``file``: arrays with b rows."""

    @abstractmethod
    def build_nodes(self, encoded: Any, given: dict[str, Any], decoder: dict[str, Any]) -> Any:
        """Build DALI's nodes from encoded pictures to (S, S, 3) pictures, not yet mirrored or normalised.

        Args:
            encoded: node of each picture's encoded bytes.
            given: a node for each of ``names``.
            decoder: keywords of DALI's decoders.

        Returns:
            The last node.
        """

    def _resize(self, pictures: Any, target: Any, **options: Any) -> Any:
        """Build the node that resizes pictures as torchvision does, but for the pixels at their edges.

        Args:
            pictures: node of the pictures.
            target: node of the height and width of each resized picture.
            options: of DALI's ``resize``: ``roi_start``, ``roi_end`` and ``dtype``, or none.
        """
        from nvidia import dali

        cubic = self.plan.data.interpolation == "bicubic"
        # torchvision scales by the rounded size, hence no sub-pixel scale.
        return dali.fn.resize(
            pictures,
            size=target,
            interp_type=dali.types.INTERP_CUBIC if cubic else dali.types.INTERP_LINEAR,
            antialias=True,
            subpixel_scale=False,
            **options,
        )


class StoredCrops(Geometry):
    """Decodes only the training crop of the picture, and resizes the crop."""

    names = ("file", "anchor", "shape", "target", "flip")

    def inputs(self, job: BatchJob) -> dict[str, Any]:
        """Return the crop of each picture, the size that the crop is resized to, and the flip."""
        views = job.views
        return {
            "anchor": np.stack([views.top, views.left], axis=1).astype(np.int32),
            "shape": np.stack([views.height, views.width], axis=1).astype(np.int32),
            "target": np.full((len(job.index), 2), self.plan.data.image_size, dtype=np.float32),
            "flip": views.flip.astype(np.int32),
        }

    def build_nodes(self, encoded: Any, given: dict[str, Any], decoder: dict[str, Any]) -> Any:
        """Build the nodes that decode the crop and resize it."""
        from nvidia import dali

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


class CentreCrops(Geometry):
    """Resizes pictures and crops the centre; in pad-crop, cuts the training window out of the crop.

    Where the model sees edges of pictures that become smaller, they are torchvision's (`compute_canvas`).
    """

    def __init__(self, plan: LoadPlan) -> None:
        super().__init__(plan)
        self.names = ("file", "target", "crop", "flip")
        if plan.train and plan.data.augment == "pad-crop":
            self.names += ("window",)
        if shows_edges(plan):
            self.names += ("canvas", "canvas_shape", "picture", "picture_end", "row_gain", "column_gain")

    def inputs(self, job: BatchJob) -> dict[str, Any]:
        """Return the size that each picture is resized to, its crop and flip, its window and its canvas."""
        stored, size, views = self.plan.sizes(job.index), self.plan.data.image_size, job.views
        target, crop = compute_resize_and_crop(stored, self.plan.resize, size)
        inputs = {"target": target, "crop": crop, "flip": views.flip.astype(np.int32)}
        if "window" in self.names:
            inputs["window"] = np.stack([views.top, views.left], axis=1).astype(np.int32)
        return inputs | (compute_canvas(stored, target, crop, size) if "canvas" in self.names else {})

    def build_nodes(self, encoded: Any, given: dict[str, Any], decoder: dict[str, Any]) -> Any:
        """Build the nodes that decode, pad, resize, crop, apply factors to edges, and cut the window."""
        from nvidia import dali

        beyond: dict[str, Any] = {"axes": [0, 1], "out_of_bounds_policy": "pad", "fill_values": 0}
        square = (self.plan.data.image_size,) * 2
        pictures, options = dali.fn.decoders.image(encoded, **decoder), {}
        if "canvas" in given:
            pictures = dali.fn.slice(pictures, start=given["canvas"], shape=given["canvas_shape"], **beyond)
            # Float, so that `cast` rounds only after the factors.
            options = {
                "roi_start": given["picture"],
                "roi_end": given["picture_end"],
                "dtype": dali.types.FLOAT,
            }
        resized = self._resize(pictures, given["target"], **options)
        pictures = dali.fn.slice(resized, start=given["crop"], shape=square, axes=[0, 1])
        if "canvas" in given:
            gains = (given["row_gain"], given["column_gain"])
            if self.plan.device.type == "cuda":  # DALI multiplies only data on one device
                gains = (gains[0].gpu(), gains[1].gpu())
            pictures = dali.fn.cast(pictures * gains[0] * gains[1], dtype=dali.types.UINT8)
        if "window" in given:
            pictures = dali.fn.slice(pictures, start=given["window"], shape=square, **beyond)
        return pictures


def choose_geometry(plan: LoadPlan) -> Geometry:
    """Choose how the pipeline of a plan decodes, resizes and crops."""
    return StoredCrops(plan) if plan.crops_as_stored else CentreCrops(plan)


def build_pipeline(plan: LoadPlan, geometry: Geometry, source: Callable[[], list[Any]]) -> Any:
    """Build a DALI pipeline that gives (b, S, S, 3) pictures.

    They are normalised; if the plan has transforms, they are uint8, and the loader transforms and normalises.

    Args:
        plan: sizes, device and settings.
        geometry: how pictures are decoded, resized and cropped.
        source: returns the inputs of the next batch, in the order of the geometry's ``names``; raises
            StopIteration at the end of a pass.
    """
    from nvidia import dali

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
            num_outputs=len(geometry.names),
            dtype=[getattr(dali.types, _INPUTS[name][0]) for name in geometry.names],
            ndim=[_INPUTS[name][1] for name in geometry.names],
        )
        given = dict(zip(geometry.names, nodes, strict=True))
        encoded = given["file"]
        if not plan.split.manifest.shards:
            # A mapped file that shrinks while it is read kills the process; a file that is read does not.
            encoded = dali.fn.io.file.read(encoded, dont_use_mmap=True)
        if plan.transforms:  # the loader normalises after them
            normalisation: dict[str, Any] = {"dtype": dali.types.UINT8}
        else:
            normalisation = {
                "mean": [255 * value for value in data.mean],
                "std": [255 * value for value in data.std],
                "dtype": dali.types.FLOAT16 if plan.dtype == torch.float16 else dali.types.FLOAT,
            }
        pictures = dali.fn.crop_mirror_normalize(
            geometry.build_nodes(encoded, given, decoder_settings(plan)),
            mirror=given["flip"],
            output_layout="HWC",
            **normalisation,
        )
        pipeline.set_outputs(pictures)
    pipeline.build()
    return pipeline


def can_decode(plan: LoadPlan, data: bytes) -> bool:
    """Tell whether DALI can decode one encoded picture.

    Args:
        plan: device and settings.
        data: bytes of the picture's file.
    """
    from nvidia import dali

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
    """Return keywords of DALI's decoders: the device, and what makes their pictures the same as Pillow's."""
    from nvidia import dali

    on_gpu = plan.device.type == "cuda"
    settings: dict[str, Any] = {
        "device": "mixed" if on_gpu else "cpu",
        "output_type": dali.types.RGB,
        "adjust_orientation": plan.turns,
        "jpeg_fancy_upsampling": True,  # as libjpeg, on the GPU as well
    }
    if on_gpu:
        settings["hw_decoder_load"] = plan.data.hw_decoder_load
        # Memory for 99.9 % of the pictures; for larger ones the decoder grows.
        widths, heights = plan.split.manifest.widths, plan.split.manifest.heights
        settings["preallocate_width_hint"] = int(np.quantile(widths[plan.indices], 0.999))
        settings["preallocate_height_hint"] = int(np.quantile(heights[plan.indices], 0.999))
    return settings


def shows_edges(plan: LoadPlan) -> bool:
    """Tell whether the model sees pixels that DALI computes in another way than torchvision.

    They lie at the edge of a resized picture, where a filter reaches beyond the stored picture
    (`compute_canvas`). Crops that are cut from the picture as stored are not judged: False.
    """
    if plan.crops_as_stored:
        return False
    manifest = plan.split.manifest
    shorter = np.minimum(manifest.heights[plan.indices], manifest.widths[plan.indices])
    scale = shorter / plan.resize  # stored pixels to one resized pixel; above 1: made smaller
    if plan.data.interpolation == "bilinear":
        # The outermost pixel; an enlarged picture has the same pixels by either way.
        pixels = np.where(scale > 1, 1, 0)
    else:
        # The bicubic filter reaches 2 * max(scale, 1) stored pixels. It must reach half a pixel beyond the
        # edge, the centre of the first pixel there, from (i + 1/2) * scale, the centre of resized pixel i.
        pixels = np.where(scale == 1, 0, np.ceil((2 * np.maximum(scale, 1) - 0.5) / scale - 0.5))
    # The crop leaves out as many pixels of the shorter side, at both ends together.
    return bool((2 * pixels > plan.resize - plan.data.image_size).any())


def compute_resize_and_crop(
    sizes: NDArray[np.int32], resize: int, size: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Compute the sizes and places by which `resize_and_crop` resizes and crops. All are in pixels.

    Args:
        sizes: (n, 2) height and width of each picture as stored.
        resize: shorter side after resizing.
        size: side of the crop.

    Returns:
        (n, 2) height and width after resizing, whole numbers, and (n, 2) top and left of the crop.
    """
    short = sizes.min(axis=1, keepdims=True)
    # As torchvision: the longer side is rounded down; a crop's place that ends in .5, to the even number.
    resized = np.where(sizes == short, resize, np.int64(resize) * sizes // short)
    crop = np.rint((resized - size) / 2.0)
    return resized.astype(np.float32), crop.astype(np.int32)


def compute_canvas(
    stored: NDArray[np.int32], target: NDArray[np.float32], crop: NDArray[np.int32], size: int
) -> dict[str, Any]:
    """Compute a canvas of zeros around each picture, and factors for the crop's rows and columns.

    Where a filter reaches over the edge, Pillow and torchvision leave out the missing pixels and scale up the
    weights of the others, but DALI repeats the edge. On a canvas DALI's filter meets zeros there, and a
    factor on the outermost rows and columns of the resized picture makes them those of torchvision. Margin
    and factors are those of the bilinear filter, a triangle: where edges are seen, `DaliLoader` refuses to
    resize bicubic.

    Args:
        stored: (n, 2) height and width of each picture as stored.
        target: (n, 2) height and width after resizing.
        crop: (n, 2) top and left of the crop in the resized picture.
        size: side of the crop, S.

    Returns:
        The inputs ``canvas``, ``canvas_shape``, ``picture`` and ``picture_end``, (n, 2) each, ``row_gain``,
        (n, S, 1, 1), and ``column_gain``, (n, 1, S, 1), as `_INPUTS` explains them.
    """
    # A side that is not made smaller needs no margin: repeating the edge or leaving it out is the same there.
    margin = np.where(stored > target, np.ceil(stored / target), 0).astype(np.int32)
    # (n, 2, S): the place of each of the crop's rows and columns in the resized picture.
    places = crop[:, :, None] + np.arange(size)
    is_outermost = (places == 0) | (places == target[:, :, None] - 1)
    gain = np.where(is_outermost, compute_edge_gain(stored / target)[:, :, None], 1.0).astype(np.float32)
    return {
        "canvas": -margin,
        "canvas_shape": stored + 2 * margin,
        "picture": margin.astype(np.float32),
        "picture_end": (stored + margin).astype(np.float32),
        "row_gain": np.ascontiguousarray(gain[:, 0, :, None, None]),
        "column_gain": np.ascontiguousarray(gain[:, 1, None, :, None]),
    }


def compute_edge_gain(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the factor by which torchvision scales up the filter weights of the outermost pixel.

    The filter is a triangle. The factor is the sum of its weights over the sum of those within the picture.
    Coordinates are in stored pixels, with 0 at the picture's edge.

    Args:
        scale: pixels of the stored picture to one of the resized picture.

    Returns:
        The factor of each scale; 1 where the scale is at most 1.
    """
    scale = np.maximum(scale, 1.0)
    centre = scale / 2  # of the outermost resized pixel
    reach = int(np.ceil(1.5 * scale.max())) + 1
    places = np.arange(-reach, reach) + 0.5
    weights = np.maximum(0.0, 1 - np.abs(places - centre[..., None]) / scale[..., None])
    return np.where(scale > 1, weights.sum(-1) / (weights * (places > 0)).sum(-1), 1.0)
