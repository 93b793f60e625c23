"""`mptctl bench kernel`: the fused loss beside eager PyTorch and torch.compile, and the floor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Literal

import torch
from pydantic import Field

from mptctl.bench.loss_timing import (
    CLASSES,
    DTYPES,
    ROWS,
    copy_bandwidth,
    sizes_for,
    time_losses,
    two_launches,
)
from mptctl.files import Model
from mptctl.machine.facts import Machine, this_machine


class KernelRow(Model):
    """One way to compute loss and gradient at one size."""

    name: str = Field(description="eager, compile (torch.compile), or ours (on a GPU)")
    n: int = Field(description="rows")
    c: int = Field(description="classes; half of them are old")
    dtype: str = Field(description="type of all logits")
    us: float = Field(
        description="microseconds, forward and backward; on a GPU of the device alone, in a graph, on a cold cache"
    )
    call_us: float = Field(description="microseconds of one call with what the host does for it, cache warm")
    bytes: int = Field(description="what must be moved at least: logits read once, gradient written once")
    floor_us: float = Field(description="bytes at the speed of a copy")


class KernelBench(Model):
    """The object that ``mptctl bench kernel --json`` prints."""

    bench: Literal["kernel"] = Field("kernel", description="which bench")
    machine: Machine = Field(description="where it was measured")
    device: str = Field(description="cpu or cuda")
    copy_gb_per_s: float = Field(description="speed of a large copy, bytes read and written")
    two_launches_us: float | None = Field(description="two empty launches in a graph; null on a CPU")
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
        device: what computes. A CPU has no fused kernel: there eager and torch.compile are timed.
        rows, classes, dtypes: the sizes; on a CPU without those that take minutes.
        repeats: the median of so many is the time.
        say: takes lines about progress.
    """
    if device.type != "cuda":
        say("no GPU: eager and torch.compile on the CPU; the fused kernel is not measured")
    machine, bandwidth = this_machine(), copy_bandwidth(device)
    times = []
    for n, c in sizes_for(device, rows, classes):
        for dtype in dtypes:
            say(f"{n:,} rows of {c:,} classes, {dtype}")
            times += time_losses(n, c, dtype, device, bandwidth, repeats)
    return KernelBench(
        machine=machine,
        device=device.type,
        copy_gb_per_s=round(bandwidth / 1e9, 1),
        two_launches_us=round(two_launches(device), 2) if device.type == "cuda" else None,
        rows=[KernelRow(**asdict(row)) for row in times],
    )
