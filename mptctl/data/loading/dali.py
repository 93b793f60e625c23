"""DALI driven by the plan: it reads, decodes, resizes and normalises the pictures that the plan names."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.dali_pipeline import build_pipeline, can_decode, shape_of, shows_edges
from mptctl.data.loading.part import Batch, BatchJob, LoadPlan
from mptctl.data.manifest import NONSTANDARD
from mptctl.data.pictures import decode_row
from mptctl.data.verify import look_into, without_warnings
from mptctl.errors import DataError, first_line, some
from mptctl.files import replacing
from mptctl.machine.facts import has_package
from mptctl.names import Progress, tell_nobody


class DaliLoader(Loader):
    """One DALI pipeline for all epochs; each batch of inputs comes from a job of the plan."""

    recipe_name = "dali"

    @classmethod
    def refuses(cls, plan: LoadPlan) -> str | None:
        """It needs files, and DALI."""
        manifest = plan.split.manifest
        if manifest.is_array:
            return f"reads picture files, and {manifest.source} is one array; use auto"
        if plan.data.interpolation == "bicubic" and shows_edges(plan):
            return "resizes edges of pictures bicubic in its own way, and they are seen; use auto or threaded"
        if not has_package("nvidia.dali"):
            return "nvidia-dali is not installed; install it, or use auto or threaded"
        return None

    @classmethod
    def declines(cls, plan: LoadPlan) -> str | None:
        """The same in few words."""
        if plan.split.manifest.is_array:
            return "DALI reads only files"
        if plan.data.interpolation == "bicubic" and shows_edges(plan):
            return "DALI resizes edges bicubic in its own way"
        return None if has_package("nvidia.dali") else "DALI is not installed"

    @classmethod
    def jpeg_decoder(cls) -> str:
        """DALI's own, whichever torchcodec or Pillow there is."""
        return "DALI"

    def __init__(
        self, plan: LoadPlan, reason: str, cache_dir: Path = Path(), progress: Progress = tell_nobody
    ) -> None:
        super().__init__(plan, reason, cache_dir, progress)
        self._substitutes = _rewrite_nonstandard(plan, cache_dir)
        self._shape = shape_of(plan)
        self._jobs: Iterator[BatchJob] = iter(())
        self._in_flight: deque[BatchJob] = deque()
        self._pipeline: Any = None

    def batches(self, jobs: Iterator[BatchJob]) -> Generator[Batch, None, None]:
        """Run the pipeline until the jobs end, and leave it empty however the pass ends."""
        pipeline = self._pipeline = self._pipeline or build_pipeline(
            self.plan, self._shape, self._next_inputs
        )
        self._jobs = jobs
        self._in_flight.clear()
        whole = False
        # Pictures with transforms leave the pipeline unnormalised; on a CPU threads work ahead on them.
        ahead: deque[tuple[BatchJob, Callable[[], Tensor]]] = deque()
        most = self.plan.data.prefetch if self.plan.transforms and self.plan.device.type == "cpu" else 0
        try:
            while True:
                try:
                    (pictures,) = self._run_pipeline(pipeline)
                except StopIteration:
                    whole = True
                    break
                job, brought = self._in_flight.popleft(), self._as_tensor(pictures)
                if job.transforms is None:
                    yield self.batch(job, brought)
                    continue
                ahead.append((job, self.start_preparing(brought, job.transforms)))
                if len(ahead) > most:
                    job, prepared = ahead.popleft()
                    yield self.batch(job, prepared())
            for job, prepared in ahead:
                yield self.batch(job, prepared())
        finally:
            if not whole:
                self._drain()
            if self._pipeline is not None:
                self._pipeline.reset()

    def close(self) -> None:
        """Free the pipeline and its threads; safe to call twice."""
        super().close()
        self._pipeline = None

    def _next_inputs(self) -> list[Any]:
        job = next(self._jobs)
        manifest = self.plan.split.manifest
        manifest.check_unchanged(job.index)
        files = [np.frombuffer(self._file_or_bytes(i), dtype=np.uint8) for i in job.index.tolist()]
        inputs = {"file": files} | self._shape.inputs(job)
        self._in_flight.append(job)
        return [inputs[name] for name in self._shape.names]

    def _file_or_bytes(self, row: int) -> bytes:
        """The name of the file that DALI reads for a row; of a picture in a shard, its bytes."""
        substitute, manifest = self._substitutes.get(row), self.plan.split.manifest
        if not manifest.shards:
            return os.fsencode(substitute or manifest.file(row))
        return manifest.read(row) if substitute is None else Path(substitute).read_bytes()

    def _run_pipeline(self, pipeline: Any) -> Any:
        try:
            if self.plan.device.type == "cuda":
                return pipeline.run(torch.cuda.current_stream(self.plan.device))
            return pipeline.run()
        except (StopIteration, DataError):
            raise
        except Exception as error:  # of any kind: DALI does not say which file it was, and that is looked for
            # The plan knows the batches that were in work.
            self._pipeline = None
            raise self._error_with_file(error) from error

    def _error_with_file(self, error: Exception) -> DataError:
        """The error of a failed batch that names the file in work which is to blame."""
        manifest, problems = self.plan.split.manifest, []
        rows = [i for job in self._in_flight for i in job.index.tolist()]
        for row in rows:
            try:
                data = manifest.read(row)
                with without_warnings():
                    look_into(io.BytesIO(data), manifest.relative_path(row), "decode", len(data))
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
        """Take out what is still in work after a pass that was left early or failed."""
        self._jobs = iter(())
        try:
            while self._pipeline is not None:
                self._pipeline.run()
        except StopIteration:
            pass
        except Exception:  # what failed is thrown away, whatever it says; the next pass builds a new one
            self._pipeline = None

    def _as_tensor(self, pictures: Any) -> Tensor:
        from nvidia.dali.plugin.pytorch.torch_utils import to_torch_tensor

        # On the CPU the batch is torch's from now on, which spares a copy and the faults of its fresh pages.
        # On a GPU a copy is cheap, and frees DALI's memory in the order of torch's stream.
        tensor: Tensor = to_torch_tensor(pictures.as_tensor(), copy=self.plan.device.type == "cuda")
        return tensor


class DaliCpuLoader(DaliLoader):
    """DALI decodes on the CPU, for training there."""

    name = "dali-cpu"
    advice = "raise data.threads or data.prefetch; mptctl bench loader --tune finds the best"
    devices = frozenset({"cpu"})


class DaliMixedLoader(DaliLoader):
    """DALI decodes on the GPU, JPEGs partly in its hardware decoder; batches never pass through the host."""

    name = "dali-mixed"
    advice = "set data.threads, data.prefetch and data.hw_decoder_load; mptctl bench loader --tune finds them"
    devices = frozenset({"cuda"})


def _rewrite_nonstandard(plan: LoadPlan, cache_dir: Path) -> dict[int, str]:
    """Pictures that decoders disagree on, as Pillow reads them: kept as PNG files for DALI.

    Of ImageNet's 1.28 million pictures these are about two dozen.
    """
    manifest, substitutes = plan.split.manifest, {}
    for i in plan.indices[manifest.kinds[plan.indices] == NONSTANDARD].tolist():
        path = cache_dir / f"odd-{manifest.fingerprint[:16]}" / f"{i}.png"
        if not path.exists():
            manifest.check_unchanged(np.array([i]))
            picture = decode_row(manifest, i).numpy()
            with replacing(path) as out:
                Image.fromarray(picture).save(out, format="PNG")
        substitutes[i] = str(path)
    return substitutes
