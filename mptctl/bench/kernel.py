"""Times the fused loss on a GPU, beside eager PyTorch and torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Literal

import torch
from pydantic import Field

from mptctl.bench.loss_timing import (
    CLASSES,
    DTYPES,
    ROWS,
    KernelRow,
    copy_bandwidth,
    time_losses,
    two_launches,
)
from mptctl.errors import UsageError
from mptctl.files import Model
from mptctl.machine.facts import Machine, this_machine


class KernelBench(Model):
    """The object that ``mptctl bench kernel --json`` prints."""

    bench: Literal["kernel"] = Field("kernel", description="which bench")
    machine: Machine = Field(description="where it was measured")
    device: str = Field(description="cuda")
    copy_gb_per_s: float = Field(description="speed of a large copy, bytes read and written")
    two_launches_us: float = Field(description="two empty launches in a graph, microseconds")
    rows: list[KernelRow] = Field(description="one for each way and size")


def bench_kernel(
    device: torch.device,
    *,
    rows: tuple[int, ...] = ROWS,
    classes: tuple[int, ...] = CLASSES,
    dtypes: tuple[str, ...] = tuple(DTYPES),
    repeats: int = 25,
    say: Callable[[str], None] = lambda line: None,
) -> KernelBench:
    """Time the loss in every way at every size.

    Args:
        device: a GPU.
        rows, classes, dtypes: every combination of these is a size.
        repeats: number of timed runs, of which the median counts.
        say: called with what is under way.

    Raises:
        UsageError: the device is no GPU.
    """
    if device.type != "cuda":
        raise UsageError(
            f"bench kernel: {device} is no GPU; times the loss on a GPU alone, bench step on a CPU"
        )
    bandwidth = copy_bandwidth(device)
    timed: list[KernelRow] = []
    for n, c, dtype in product(rows, classes, dtypes):
        say(f"{n:,} rows of {c:,} classes, {dtype}")
        timed += time_losses(n, c, dtype, device, bandwidth, repeats)
    return KernelBench(
        machine=this_machine(),
        device=device.type,
        copy_gb_per_s=round(bandwidth / 1e9, 1),
        two_launches_us=round(two_launches(device), 2),
        rows=timed,
    )
