"""Times the fused loss beside eager PyTorch and torch.compile; without a GPU, counts its instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import product
from typing import Literal

import torch
from pydantic import Field

from mptctl.bench.kernel_bounds import GPUS, KernelRow, bound_row
from mptctl.bench.loss_timing import CLASSES, DTYPES, ROWS, copy_bandwidth, time_losses, two_launches
from mptctl.files import Model
from mptctl.machine.facts import Machine, this_machine


class KernelBench(Model):
    """The object that ``mptctl bench kernel --json`` prints."""

    bench: Literal["kernel"] = Field("kernel", description="which bench")
    machine: Machine = Field(description="where it was measured, or counted")
    device: str = Field(description="cpu or cuda")
    copy_gb_per_s: float | None = Field(
        description="speed of a large copy, bytes read and written; null without a GPU"
    )
    two_launches_us: float | None = Field(
        description="two empty launches in a graph, microseconds; null without a GPU"
    )
    rows: list[KernelRow] = Field(
        description="one for each way and size; without a GPU ours alone, for each size and GPU it is "
        "compiled for"
    )


def bench_kernel(
    device: torch.device,
    *,
    rows: tuple[int, ...] = ROWS,
    classes: tuple[int, ...] = CLASSES,
    dtypes: tuple[str, ...] = tuple(DTYPES),
    archs: tuple[str, ...] = tuple(GPUS),
    repeats: int = 25,
    say: Callable[[str], None] = lambda line: None,
) -> KernelBench:
    """Time the loss in every way at every size on a GPU, and compute the bounds of the fused kernel.

    Without a GPU nothing is timed, and there are bounds alone. Bounds that cannot be computed here are left
    out.

    Args:
        device: a GPU, where the loss is timed, or a CPU.
        rows, classes, dtypes: every combination of these is a size.
        archs: keys of `GPUS` for which bounds are computed if there is no GPU.
        repeats: number of timed runs, of which the median counts.
        say: told what is under way.
    """
    sizes, machine = list(product(rows, classes, dtypes)), this_machine()
    if device.type != "cuda":
        say("no GPU: nothing is timed; what the machine code says instead")
        bound_rows = (_bound_or_none(n, c, dtype, arch, say) for (n, c, dtype), arch in product(sizes, archs))
        return KernelBench(
            machine=machine,
            device=device.type,
            copy_gb_per_s=None,
            two_launches_us=None,
            rows=[row for row in bound_rows if row is not None],
        )
    bandwidth, timed = copy_bandwidth(device), []
    major, minor = torch.cuda.get_device_capability(device)
    arch = f"sm_{major}{minor}"
    for n, c, dtype in sizes:
        say(f"{n:,} rows of {c:,} classes, {dtype}")
        for time in time_losses(n, c, dtype, device, bandwidth, repeats):
            has_bounds = time.name == "ours" and arch in GPUS
            bounds = _bound_or_none(n, c, dtype, arch, say) if has_bounds else None
            timed.append(bounds.model_copy(update=asdict(time)) if bounds else KernelRow(**asdict(time)))
    return KernelBench(
        machine=machine,
        device=device.type,
        copy_gb_per_s=round(bandwidth / 1e9, 1),
        two_launches_us=round(two_launches(device), 2),
        rows=timed,
    )


def _bound_or_none(n: int, c: int, dtype: str, arch: str, say: Callable[[str], None]) -> KernelRow | None:
    """Return `bound_row`; say why and return None if Triton or its disassembler is missing."""
    try:
        return bound_row(n, c, dtype, arch)
    except (ImportError, FileNotFoundError) as missing:
        reason = f"{missing.filename} is missing" if isinstance(missing, FileNotFoundError) else missing
        say(f"{n:,} rows of {c:,} classes, {dtype}, {arch}: not counted, {reason}; install triton for NVIDIA")
        return None
