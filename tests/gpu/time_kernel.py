"""The rows of `mptctl bench kernel`, each printed as JSON when measured; needs nothing beside torch."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from dataclasses import asdict

import torch

from mptctl.bench.loss_timing import CLASSES, DTYPES, ROWS, copy_bandwidth, time_losses, two_launches


def main() -> int:
    """Print what no loss can be faster than, and then all ways to compute the loss at each size."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repeats", type=int, default=25, help="the median of so many is a time")
    repeats = arguments.parse_args().repeats
    device = torch.device("cuda:0")
    bandwidth = copy_bandwidth(device)
    tell({"copy_gb_per_s": bandwidth / 1e9, "two_launches_us": two_launches(device)})
    for n, c, dtype in itertools.product(ROWS, CLASSES, DTYPES):
        ways = [asdict(row) for row in time_losses(n, c, dtype, device, bandwidth, repeats)]
        tell({"n": n, "c": c, "dtype": dtype, "repeats": repeats, "ways": ways})
    return 0


def tell(row: dict[str, object]) -> None:
    """A line of JSON for programs, and the same for who looks on."""
    print(json.dumps(row), flush=True)
    print(row, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
