"""Counters by which the last program of a launch knows that all others are done, and adds up the rows.

A launch needs a counter that is 0 and that no other launch uses meanwhile; its last program sets it back to
0. The launches of a stream follow each other, so they share one. A captured launch may be replayed on any
stream, so it has one of its own for good.
"""

import itertools

import torch
from torch import Tensor

# Counters of a device: one a stream, one a captured launch, of which a training has a few.
COUNTERS = 4096
# 16 bytes apart: Triton compiles one kernel for addresses that are multiples of 16 and another for the rest,
# and a launch that is captured must be one that was compiled before.
_INTS = 4


class _Pool:
    """The counters of one device, and which of them are taken."""

    def __init__(self, device: torch.device) -> None:
        self.counters = torch.zeros(COUNTERS, _INTS, dtype=torch.int32, device=device)
        self.of_stream: dict[int, Tensor | None] = {}
        self._free = itertools.count()
        if device.type == "cuda":
            # Once a device: other streams do not wait for the zeros.
            torch.cuda.current_stream(device).synchronize()

    def take(self) -> Tensor | None:
        """Take a free counter; None where there is none."""
        i = next(self._free)
        return self.counters[i, :1] if i < COUNTERS else None


_POOLS: dict[torch.device, _Pool] = {}


def arrival_counter(device: torch.device) -> Tensor | None:
    """Get a counter, (1,) int32, that is 0 whenever the next launch on the current stream begins.

    Args:
        device: the current one.

    Returns:
        None where all counters are taken, or where a graph is captured on a device on which nothing ran
        before: zeros that are written during a capture are not there before its replay.
    """
    capturing = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    if device not in _POOLS and not capturing:
        _POOLS[device] = _Pool(device)
    pool = _POOLS.get(device)
    if pool is None:
        return None
    if capturing:
        return pool.take()
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    if stream not in pool.of_stream:
        pool.of_stream[stream] = pool.take()
    return pool.of_stream[stream]
