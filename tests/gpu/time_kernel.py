"""The rows of `mptctl bench kernel`, each size told of when measured, without what the verb needs beside torch."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from dataclasses import asdict
from functools import partial

import torch

from mptctl.bench.loss_timing import CLASSES, DTYPES, ROWS, copy_bandwidth, time_losses, two_launches
from tests.gpu.results import Result, attempt


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repeats", type=int, default=25, help="the median of so many is a time")
    repeats = arguments.parse_args().repeats
    device = torch.device("cuda:0")
    bandwidth = copy_bandwidth(device)
    attempt("floors", partial(floors, bandwidth, device))
    for n, c, dtype in itertools.product(ROWS, CLASSES, DTYPES):
        attempt(f"{n} x {c} {dtype}", partial(one_size, n, c, dtype, device, bandwidth, repeats))
    return 0


def floors(bandwidth: float, device: torch.device) -> Result:
    """What no loss can be faster than."""
    launches = two_launches(device)
    said = f"a copy moves {bandwidth / 1e9:,.0f} GB/s; two empty launches in a graph take {launches:.2f} us"
    data = {"copy_gb_per_s": bandwidth / 1e9, "two_launches_us": launches}
    return Result("floors", "passed", 0.0, said, data)


def one_size(n: int, c: int, dtype: str, device: torch.device, bandwidth: float, repeats: int) -> Result:
    """All ways to compute the loss at one size."""
    begin = time.monotonic()
    times = time_losses(n, c, dtype, device, bandwidth, repeats)
    us = {row.name: row.us for row in times}
    said = (
        f"eager {us['eager']:.1f} us, compile {us['compile']:.1f}, ours {us['ours']:.1f}; "
        f"{us['compile'] / us['ours']:.2f} x compile, {times[0].floor_us / us['ours']:.0%} of the floor's speed"
    )
    data = {"n": n, "c": c, "dtype": dtype, "repeats": repeats, "ways": [asdict(row) for row in times]}
    return Result(f"{n} x {c} {dtype}", "passed", time.monotonic() - begin, said, data)


if __name__ == "__main__":
    sys.exit(main())
