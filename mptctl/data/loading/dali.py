"""The loaders that let NVIDIA's DALI read, decode, resize and normalise pictures."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mptctl.data.ahead import map_ahead
from mptctl.data.loading.base import Loader
from mptctl.data.loading.dali_pipeline import build_pipeline, can_decode, choose_geometry, shows_edges
from mptctl.data.loading.part import Batch, BatchJob, LoadPlan
from mptctl.data.manifest import NONSTANDARD
from mptctl.data.verify import check_stream, without_warnings
from mptctl.errors import DataError, first_line, some
from mptctl.files import replacing
from mptctl.machine.facts import has_package


class DaliLoader(Loader):
    """Runs one DALI pipeline for all epochs, fed with the jobs of the plan."""

    recipe_name = "dali"

    @classmethod
    def why_not(cls, plan: LoadPlan, *, is_asked: bool) -> str | None:
        """Say so for an array, visible edges of resized pictures, or a missing DALI; else None."""
        if plan.split.manifest.is_array:
            return f"DALI reads only files, and {plan.split.manifest.source} is one array"
        if shows_edges(plan):
            return "DALI resizes the edges of pictures in its own way, and they are seen"
        return None if has_package("nvidia.dali") else "DALI is not installed"

    @classmethod
    def jpeg_decoder_name(cls) -> str:
        """Return "DALI", which decodes by itself whatever else is installed."""
        return "DALI"

    def read_ahead(self) -> None:
        """Choose the geometry, and rewrite pictures that DALI cannot read."""
        self._substitutes = _rewrite_nonstandard(self.plan, self.cache_dir)
        self._geometry = choose_geometry(self.plan)
        # None before the first pass, and after an error, which no pipeline survives.
        self._pipeline: Any = None
        self._jobs: Iterator[BatchJob] = iter(())
        self._in_flight: deque[BatchJob] = deque()
        self._has_ended = True  # the pipeline has given the batch of every job of the pass

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """Yield the batch of each job, in order; no batch stays in the pipeline, however the pass ends.

        Pictures with transforms leave the pipeline unnormalised; on a CPU, threads transform and normalise
        them ``data.prefetch`` batches ahead.

        Raises:
            DataError: DALI failed on a batch; names the file to blame if one is found.
        """
        if self._pipeline is None:
            self._pipeline = build_pipeline(self.plan, self._geometry, self._next_inputs)
        self._jobs = jobs
        self._in_flight.clear()
        self._has_ended = False
        has_work_for_threads = self.plan.transforms and self.plan.device.type == "cpu"
        ahead = self.plan.data.prefetch if has_work_for_threads else 0
        try:
            yield from map_ahead(self._start_batch, self._run_jobs(self._pipeline), ahead)
        finally:
            if not self._has_ended:
                self._drain()
            if self._pipeline is not None:
                self._pipeline.reset()  # allowed only at the end of a pass

    def _start_batch(self, decoded: tuple[BatchJob, Tensor]) -> Callable[[], Batch]:
        """Begin to make the batch of a job from its pictures, unnormalised where they have transforms."""
        job, pictures = decoded
        if job.transforms is None:
            return partial(self.make_batch, job, pictures)
        return self.start_preparing(pictures, job.transforms, partial(self.make_batch, job))

    def _run_jobs(self, pipeline: Any) -> Iterator[tuple[BatchJob, Tensor]]:
        """Yield each job with its pictures out of the pipeline; errors: see `_run_pipeline`."""
        while True:
            try:
                (pictures,) = self._run_pipeline(pipeline)
            except StopIteration:
                self._has_ended = True
                return
            yield self._in_flight.popleft(), self._as_tensor(pictures)

    def close(self) -> None:
        """Free the pipeline and its threads; safe to call twice."""
        super().close()
        self._pipeline = None

    def _next_inputs(self) -> list[Any]:
        """Return the pipeline's inputs for the next job, in the order of its ``names``; DALI calls this.

        Raises:
            StopIteration: there is no further job.
            DataError: a file of the job changed since split, or cannot be read.
        """
        job = next(self._jobs)
        manifest = self.plan.split.manifest
        manifest.check_unchanged(job.index)
        files = [np.frombuffer(self._read_input(row), dtype=np.uint8) for row in job.index.tolist()]
        inputs = {"file": files} | self._geometry.inputs(job)
        self._in_flight.append(job)
        return [inputs[name] for name in self._geometry.names]

    def _read_input(self, row: int) -> bytes:
        """Return the name of the file that DALI reads for a row; for a picture in a shard, its bytes."""
        manifest = self.plan.split.manifest
        substitute = self._substitutes.get(row)
        if manifest.shards:
            return manifest.read(row) if substitute is None else Path(substitute).read_bytes()
        return os.fsencode(manifest.file(row) if substitute is None else substitute)

    def _run_pipeline(self, pipeline: Any) -> Any:
        """Take the next batch out of the pipeline; StopIteration at the end of the jobs.

        Raises:
            DataError: DALI failed; the pipeline is given up then.
        """
        try:
            if self.plan.device.type == "cuda":
                return pipeline.run(torch.cuda.current_stream(self.plan.device))
            return pipeline.run()
        except (StopIteration, DataError):
            raise
        except Exception as error:  # of any kind, none of which says which file it was
            self._pipeline = None
            raise self._find_bad_files(error) from error

    def _find_bad_files(self, error: Exception) -> DataError:
        """Check the pictures of the batches in work, and return an error that names the bad ones."""
        manifest = self.plan.split.manifest
        problems = []
        rows = [row for job in self._in_flight for row in job.index.tolist()]
        for row in rows:
            try:
                data = manifest.read(row)
                with without_warnings():
                    check_stream(io.BytesIO(data), manifest.relative_path(row), "decode", len(data))
            except DataError as problem:
                problems.append(f"{manifest.where(row)}: {problem}")
        if problems:
            return DataError(
                f"{some(problems, separator='; ')}; repair or remove them, and run split --overwrite"
            )
        for row in rows:
            if not can_decode(self.plan, manifest.read(row)):
                return DataError(
                    f"{manifest.where(row)}: Pillow can decode it and DALI cannot; save it anew and run "
                    "split --overwrite, or set data.loader=threaded"
                )
        return DataError(f"DALI failed ({first_line(error)[:160]}); try data.loader=threaded")

    def _drain(self) -> None:
        """Throw away the batches in work, after a pass that was left early or failed."""
        self._jobs = iter(())
        try:
            while self._pipeline is not None:
                self._pipeline.run()
        except StopIteration:
            pass
        except Exception:  # the pipeline failed on a batch that nobody wants; the next pass builds a new one
            self._pipeline = None

    def _as_tensor(self, pictures: Any) -> Tensor:
        """Return DALI's pictures as a tensor: on a CPU in DALI's memory, on a GPU a copy.

        On a CPU this spares a copy and the page faults of fresh memory. On a GPU a copy is cheap, and frees
        DALI's memory in the order of torch's stream.
        """
        from nvidia.dali.plugin.pytorch.torch_utils import to_torch_tensor

        tensor: Tensor = to_torch_tensor(pictures.as_tensor(), copy=self.plan.device.type == "cuda")
        return tensor


class DaliCpuLoader(DaliLoader):
    """Decodes with DALI on the CPU, for a model on the CPU."""

    name = "dali-cpu"
    advice = "raise data.threads or data.prefetch; mptctl bench loader times them"
    devices = frozenset({"cpu"})


class DaliMixedLoader(DaliLoader):
    """Decodes with DALI on the GPU, JPEG files partly in its hardware decoder, for a model on the GPU."""

    name = "dali-mixed"
    advice = "set data.threads, data.prefetch and data.hw_decoder_load; mptctl bench loader times them"
    devices = frozenset({"cuda"})


def _rewrite_nonstandard(plan: LoadPlan, cache_dir: Path) -> dict[int, str]:
    """Write pictures that decoders disagree on, as Pillow reads them and turned as planned, to PNG files.

    Of ImageNet's 1.28 million pictures these are about two dozen. A file that exists is not written again;
    those of replaced pictures have another folder.

    Args:
        plan: which pictures.
        cache_dir: folder in which the files are written.

    Returns:
        The path of the PNG file, by row of the manifest.
    """
    manifest = plan.split.manifest
    substitutes = {}
    for row in plan.indices[manifest.kinds[plan.indices] == NONSTANDARD].tolist():
        path = cache_dir / f"odd-{manifest.digest[:16]}{plan.turned_suffix}" / f"{row}.png"
        if not path.exists():
            picture = plan.picture(row).numpy()
            with replacing(path) as out:
                Image.fromarray(picture).save(out, format="PNG")
        substitutes[row] = str(path)
    return substitutes
