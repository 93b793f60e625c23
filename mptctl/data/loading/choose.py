"""A batch, what every loader offers, and the choice of loader with its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.machine.facts import has_package
from mptctl.names import Part
from mptctl.recipe import DataRecipe


def make_loader(
    split: Split,
    data: DataRecipe,
    part: Part,
    *,
    batch_size: int,
    seed: int,
    train: bool,
    device: torch.device,
    num_classes: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    cache_dir: Path | None = None,
    dtype: torch.dtype = torch.float32,
    progress: Callable[[int, int], None] | None = None,
) -> Loader:
    """Choose a loader by size, device and what is installed, unless the recipe names one.

    Args:
        split: which pictures, and their labels.
        data: picture size, augmentation, normalisation and the loader's settings.
        part: ``train``, ``val`` or ``test``.
        batch_size: samples of a global batch, over all workers.
        seed: seed of order and augmentation.
        train: shuffled and augmented, or every sample once in the manifest's order.
        device: where batches shall be.
        num_classes: only samples of the first so many classes.
        rank, world_size: which worker this is, of how many.
        cache_dir: folder for decoded pictures; default ``cache`` below the split's run root.
        dtype: type of the pictures.
        progress: called with (pictures decoded, pictures in all) while the resident loader decodes.

    Raises:
        UsageError: the recipe's loader cannot do what is asked here, or a batch is larger than the part.
        DataError: a picture is gone, changed or damaged.
    """
    work = LoadPlan(
        split=split, data=data, part=part, batch_size=batch_size, seed=seed, train=train, device=device,
        num_classes=num_classes, rank=rank, world_size=world_size, dtype=dtype,
    )  # fmt: skip
    kind, reason = choose_loader(work)
    if kind == "resident":
        from mptctl.data.loading.resident import ResidentLoader

        return ResidentLoader(work, reason, cache_dir or split.run_root / "cache", progress)
    if kind == "dali":
        from mptctl.data.loading.dali import DaliLoader

        return DaliLoader(work, reason, cache_dir or split.run_root / "cache")
    from mptctl.data.loading.threaded import ThreadedLoader

    return ThreadedLoader(work, reason)


def choose_loader(work: LoadPlan) -> tuple[str, str]:
    """Which loader serves a pass, and why.

    Returns:
        ``resident``, ``dali`` or ``threaded``, and one sentence.

    Raises:
        UsageError: the recipe names a loader that cannot serve this pass.
    """
    data, files = work.data, work.split.manifest.has_files
    gigabytes = work.resident_bytes / 1e9
    fits = gigabytes <= data.resident_limit_gb
    has_dali = has_package("nvidia.dali")
    if data.loader == "resident":
        if work.crops_as_stored:
            raise UsageError(
                "data.loader resident: keeps pictures at one size and cannot crop them as stored "
                "(data.augment random-resized-crop); use auto, dali or threaded"
            )
        return "resident", "the recipe asks for it"
    if data.loader == "dali":
        if not files:
            raise UsageError(
                f"data.loader dali: reads picture files, and {work.split.manifest.source} is one array; use auto"
            )
        if not has_dali:
            raise UsageError(
                "data.loader dali: nvidia-dali is not installed; install it, or use auto or threaded"
            )
        return "dali", "the recipe asks for it"
    if data.loader == "threaded":
        return "threaded", "the recipe asks for it"
    size = f"{work.num_samples:,} pictures take {gigabytes:.2f} GB decoded"
    if fits and not work.crops_as_stored:
        return "resident", f"{size}, below data.resident_limit_gb {data.resident_limit_gb:g}"
    why = (
        "random-resized-crop needs pictures as stored"
        if work.crops_as_stored
        else f"{size}, above data.resident_limit_gb {data.resident_limit_gb:g}"
    )
    if not files:
        return "threaded", f"{why}, and DALI reads only files"
    if not has_dali:
        return "threaded", f"{why}, and DALI is not installed"
    return "dali", why
