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
    "target": ("FLOAT", 1),  # height and width that the picture is resized to
    "crop": ("INT32", 1),  # top and left of the centre crop in the resized picture
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

    def _resize(self, pictures: Any, target: Any) -> Any:
        """Build the node that resizes each picture to its target as torchvision does, but at edges."""
        from nvidia import dali

        cubic = self.plan.data.interpolation == "bicubic"
        # torchvision scales by the rounded size, hence no sub-pixel scale.
        return dali.fn.resize(
            pictures,
            size=target,
            interp_type=dali.types.INTERP_CUBIC if cubic else dali.types.INTERP_LINEAR,
            antialias=True,
            subpixel_scale=False,
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
    """Resizes pictures and crops the centre; in pad-crop, cuts the training window out of the crop."""

    def __init__(self, plan: LoadPlan) -> None:
        super().__init__(plan)
        self.names = ("file", "target", "crop", "flip")
        if plan.train and plan.data.augment == "pad-crop":
            self.names += ("window",)

    def inputs(self, job: BatchJob) -> dict[str, Any]:
        """Return the size that each picture is resized to, its crop and flip, and its window."""
        stored, size, views = self.plan.sizes(job.index), self.plan.data.image_size, job.views
        target, crop = compute_resize_and_crop(stored, self.plan.resize, size)
        inputs = {"target": target, "crop": crop, "flip": views.flip.astype(np.int32)}
        if "window" in self.names:
            inputs["window"] = np.stack([views.top, views.left], axis=1).astype(np.int32)
        return inputs

    def build_nodes(self, encoded: Any, given: dict[str, Any], decoder: dict[str, Any]) -> Any:
        """Build the nodes that decode, resize, crop, and cut the window."""
        from nvidia import dali

        square = (self.plan.data.image_size,) * 2
        resized = self._resize(dali.fn.decoders.image(encoded, **decoder), given["target"])
        pictures = dali.fn.slice(resized, start=given["crop"], shape=square, axes=[0, 1])
        if "window" in given:
            beyond: dict[str, Any] = {"axes": [0, 1], "out_of_bounds_policy": "pad", "fill_values": 0}
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

    They lie at the edge of a resized picture, where a filter reaches beyond the stored picture: torchvision
    leaves out the missing pixels and scales up the weights of the others, and DALI repeats the edge. Crops
    that are cut from the picture as stored are not judged: False.
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
        # In stored pixels from the edge: resized pixel i has its centre at (i + 1/2) * scale, the filter
        # reaches so far to each side, and the first pixel beyond the edge has its centre at -1/2.
        reach = 2 * np.maximum(scale, 1)
        pixels = np.where(scale == 1, 0, np.ceil((reach - 0.5) / scale - 0.5))
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
