"""DALI driven by the plan: it reads, decodes, resizes and normalises what the plan names, and nothing else."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mptctl.data.loading.base import PlannedLoader
from mptctl.data.loading.dali_geometry import fitted_size, pad_for_resize
from mptctl.data.loading.part import BatchJob, LoadPlan
from mptctl.data.manifest import NONSTANDARD
from mptctl.data.pictures import rgb
from mptctl.data.verify import check_file
from mptctl.errors import DataError
from mptctl.files import replacing
from mptctl.machine.facts import usable_cores

if TYPE_CHECKING:
    from mptctl.data.loading.batch import Batch

# What DALI is told about each picture, in this order; a pass uses those of `input_names`.
_INPUTS = {
    # name: (DALI's type, dimensions of one sample)
    "path": ("UINT8", 1),
    "anchor": ("INT32", 1),  # top and left of the part that is decoded
    "shape": ("INT32", 1),  # its height and width
    "canvas": ("INT32", 1),  # top and left of a canvas around the picture, see `pad_for_resize`
    "canvas_shape": ("INT32", 1),  # its height and width
    "picture": ("FLOAT", 1),  # top and left of the picture on that canvas
    "picture_end": ("FLOAT", 1),  # bottom and right of it
    "target": ("FLOAT", 1),  # height and width to resize it to
    "square": ("INT32", 1),  # top and left of the square that is cut out of that
    "row_gain": ("FLOAT", 3),  # factor of each row of the square, (S, 1, 1)
    "column_gain": ("FLOAT", 3),  # factor of each column, (1, S, 1)
    "window": ("INT32", 1),  # top and left of the training window within, or partly beyond, the square
    "flip": ("INT32", 0),
}


class DaliLoader(PlannedLoader):
    """One DALI pipeline for all epochs; each batch of inputs comes from a job of the plan.

    ``dali-cpu`` decodes on the CPU, for training there. ``dali-mixed`` decodes on the GPU, JPEGs partly
    in its hardware decoder, and its batches never pass through the host.
    """

    def __init__(self, work: LoadPlan, reason: str, cache_dir: Path) -> None:
        self.name = "dali-mixed" if work.device.type == "cuda" else "dali-cpu"
        super().__init__(work, reason)
        self._substitutes = _rewrite_odd(work, cache_dir)
        self._jobs: Iterator[BatchJob] = iter(())
        self._in_flight: deque[BatchJob] = deque()
        self._pipeline: Any = None

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """Run the pipeline until the jobs end, and leave it empty however the pass ends."""
        pipeline = self._pipeline = self._pipeline or build_pipeline(self.work, self._next_inputs)
        self._jobs = jobs
        self._in_flight.clear()
        whole = False
        try:
            while True:
                try:
                    (pictures,) = self._run(pipeline)
                except StopIteration:
                    whole = True
                    return
                job = self._in_flight.popleft()
                yield self.batch(job, self._images(pictures))
        finally:
            if not whole:
                self._drain()
            if self._pipeline is not None:
                self._pipeline.reset()

    def ready(self) -> int:
        """Batches that are prepared or in preparation now."""
        return len(self._in_flight)

    def close(self) -> None:
        """Free the pipeline and its threads; safe to call twice."""
        self._pipeline = None

    def _next_inputs(self) -> list[Any]:
        job = next(self._jobs)
        inputs = self._inputs(job)
        self._in_flight.append(job)
        return [inputs[name] for name in input_names(self.work)]

    def _inputs(self, job: BatchJob) -> dict[str, Any]:
        work, manifest, views = self.work, self.work.split.manifest, job.views
        manifest.check_unchanged(job.index)
        paths = [
            np.frombuffer(os.fsencode(self._substitutes.get(i) or manifest.file(i)), dtype=np.uint8)
            for i in job.index.tolist()
        ]
        count, size = len(job.index), work.data.image_size
        inputs: dict[str, Any] = {"path": paths, "flip": np.zeros(count, dtype=np.int32)}
        if views is not None:
            inputs["flip"] = views.flip.astype(np.int32)
            inputs["window"] = np.stack([views.top, views.left], axis=1).astype(np.int32)
        if views is not None and work.crops_as_stored:
            inputs["anchor"] = inputs["window"]
            inputs["shape"] = np.stack([views.height, views.width], axis=1).astype(np.int32)
            inputs["target"] = np.full((count, 2), size, dtype=np.float32)
        else:
            stored = np.stack([manifest.heights[job.index], manifest.widths[job.index]], axis=1)
            inputs["target"], inputs["square"] = fitted_size(stored, work.resize, size)
            if shows_edges(work):
                inputs |= pad_for_resize(stored, inputs["target"], inputs["square"], size)
        return inputs

    def _run(self, pipeline: Any) -> Any:
        try:
            if self.work.device.type == "cuda":
                return pipeline.run(torch.cuda.current_stream(self.work.device))
            return pipeline.run()
        except (StopIteration, DataError):
            raise
        except Exception as error:  # whatever DALI raises
            # It does not say which file it was, but the plan knows the batches that were in work.
            self._pipeline = None
            raise self._blame(error) from error

    def _blame(self, error: Exception) -> DataError:
        manifest, problems = self.work.split.manifest, []
        for job in self._in_flight:
            for i in job.index.tolist():
                try:
                    check_file(manifest.file(i), "decode")
                except DataError as problem:
                    problems.append(f"{manifest.file(i)}: {problem}")
        if problems:
            return DataError(f"{'; '.join(problems)}; repair or remove them, and run split --overwrite")
        first_line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return DataError(
            f"DALI cannot decode a picture of this batch ({first_line[:160]}); try data.loader=threaded"
        )

    def _drain(self) -> None:
        """Take out what is still in work after a pass that was left early or failed."""
        self._jobs = iter(())
        try:
            while self._pipeline is not None:
                self._pipeline.run()
        except StopIteration:
            pass
        except Exception:  # what failed is thrown away, whatever it says; the next pass builds a new one
            self._pipeline = None

    def _images(self, pictures: Any) -> Tensor:
        from nvidia.dali.plugin.pytorch.torch_utils import to_torch_tensor

        # On the CPU the batch is torch's from now on, which spares a copy and the faults of its fresh pages. On a
        # GPU a copy is cheap, and frees DALI's memory in the order of torch's stream.
        images: Tensor = to_torch_tensor(pictures.as_tensor(), copy=self.work.device.type == "cuda")
        return images.to(self.work.dtype).permute(0, 3, 1, 2)


def input_names(work: LoadPlan) -> list[str]:
    """What the pipeline of a pass is told about each picture, in order."""
    if work.crops_as_stored:
        return ["path", "anchor", "shape", "target", "flip"]
    names = ["path", "target", "square", "flip"]
    if work.train and work.data.augment == "pad-crop":
        names.append("window")
    if shows_edges(work):
        names += ["canvas", "canvas_shape", "picture", "picture_end", "row_gain", "column_gain"]
    return names


def shows_edges(work: LoadPlan) -> bool:
    """Whether edges of pictures that were made smaller are seen, and so have to be right."""
    manifest = work.split.manifest
    shorter = np.minimum(manifest.heights[work.indices], manifest.widths[work.indices])
    size = work.data.image_size
    return not work.crops_as_stored and work.resize - size < 2 and bool((shorter > size).any())


def build_pipeline(work: LoadPlan, source: Any) -> Any:
    """A DALI pipeline that turns the plan's inputs into (b, S, S, 3) normalised pictures.

    Args:
        work: sizes, device and settings.
        source: called for each batch; gives a list of what `input_names` says, or raises StopIteration
            at the end of a pass.
    """
    from nvidia.dali import Pipeline, fn, types

    data, size = work.data, work.data.image_size
    on_gpu = work.device.type == "cuda"
    share = -(-work.batch_size // work.world_size)
    pipeline = Pipeline(
        batch_size=max(1, min(share, work.num_samples)),
        num_threads=data.threads or usable_cores(),
        device_id=(work.device.index or 0) if on_gpu else None,
        prefetch_queue_depth=data.prefetch,
    )
    with pipeline:
        names = input_names(work)
        nodes = fn.external_source(
            source=source,
            num_outputs=len(names),
            dtype=[getattr(types, _INPUTS[name][0]) for name in names],
            ndim=[_INPUTS[name][1] for name in names],
        )
        given = dict(zip(names, nodes, strict=True))
        # A mapped file that shrinks while it is read kills the process; a file that is read does not.
        encoded = fn.io.file.read(given["path"], dont_use_mmap=True)
        decoder: dict[str, Any] = {
            "device": "mixed" if on_gpu else "cpu",
            "output_type": types.RGB,
            "adjust_orientation": False,  # as Pillow: the EXIF rotation is not applied
            "jpeg_fancy_upsampling": True,  # as libjpeg, on the GPU as well
        }
        if on_gpu:
            decoder["hw_decoder_load"] = data.hw_decoder_load
            # Room for all but the few largest; for those the decoder grows.
            widths, heights = work.split.manifest.widths, work.split.manifest.heights
            decoder["preallocate_width_hint"] = int(np.quantile(widths[work.indices], 0.999))
            decoder["preallocate_height_hint"] = int(np.quantile(heights[work.indices], 0.999))
        if work.crops_as_stored:
            pictures = fn.decoders.image_slice(
                encoded,
                given["anchor"],
                given["shape"],
                axes=[0, 1],
                normalized_anchor=False,
                normalized_shape=False,
                **decoder,
            )
        else:
            pictures = fn.decoders.image(encoded, **decoder)
        region: dict[str, Any] = {}
        if "canvas" in given:
            pictures = fn.slice(
                pictures,
                start=given["canvas"],
                shape=given["canvas_shape"],
                axes=[0, 1],
                out_of_bounds_policy="pad",
                fill_values=0,
            )
            region = {"roi_start": given["picture"], "roi_end": given["picture_end"], "dtype": types.FLOAT}
        # torchvision's scale is that of the rounded size, hence no sub-pixel scale.
        pictures = fn.resize(pictures, size=given["target"], interp_type=types.INTERP_LINEAR, antialias=True,
                             subpixel_scale=False, **region)  # fmt: skip
        cut: dict[str, Any] = {"shape": (size, size), "axes": [0, 1]}
        if "square" in given:
            pictures = fn.slice(pictures, start=given["square"], **cut)
        if "row_gain" in given:
            rows, columns = given["row_gain"], given["column_gain"]
            if on_gpu:  # DALI multiplies what is on one device
                rows, columns = rows.gpu(), columns.gpu()
            pictures = fn.cast(pictures * rows * columns, dtype=types.UINT8)
        if "window" in given:
            pictures = fn.slice(
                pictures, start=given["window"], out_of_bounds_policy="pad", fill_values=0, **cut
            )
        pictures = fn.crop_mirror_normalize(
            pictures,
            mirror=given["flip"],
            mean=[255 * value for value in data.mean],
            std=[255 * value for value in data.std],
            dtype=types.FLOAT16 if work.dtype == torch.float16 else types.FLOAT,
            output_layout="HWC",
        )
        pipeline.set_outputs(pictures)
    pipeline.build()
    return pipeline


def _rewrite_odd(work: LoadPlan, cache_dir: Path) -> dict[int, str]:
    """Pictures that decoders disagree on, as Pillow reads them: kept as PNG files for DALI.

    Of ImageNet's 1.28 million pictures these are about two dozen.
    """
    manifest, substitutes = work.split.manifest, {}
    for i in work.indices[manifest.kinds[work.indices] == NONSTANDARD].tolist():
        path = cache_dir / f"odd-{manifest.fingerprint[:16]}" / f"{i}.png"
        if not path.exists():
            manifest.check_unchanged(np.array([i]))
            with open(manifest.file(i), "rb") as stream:
                picture = rgb(stream.read())
            with replacing(path) as out:
                Image.fromarray(picture).save(out, format="PNG")
        substitutes[i] = str(path)
    return substitutes
