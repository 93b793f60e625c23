"""Counters by which the last program of a launch knows that all others are done, so that it can sum up rows.

A launch needs a counter that is 0 and that no other launch uses at the same time. The launch's last program
sets the counter back to 0. The launches of a stream follow each other, so they share a counter. A captured
launch may be replayed on any stream, so it keeps a counter of its own.
"""

import itertools

import torch
from torch import Tensor

# Launches of a device that can have counters at once; each stream takes those of one, and each captured launch.
COUNTERS = 1024
# A launch has a counter of its own, and one for each group of its programs. They lie a line of the cache
# apart, 32 ints, so that arrivals at one do not wait for those at another.
GROUPS = 32
COUNTER_INTS = 32


class _Pool:
    """The counters of one device, and by stream the counters that are taken."""

    def __init__(self, device: torch.device) -> None:
        self.counters = torch.zeros(COUNTERS, (1 + GROUPS) * COUNTER_INTS, dtype=torch.int32, device=device)
        self.of_stream: dict[int, Tensor | None] = {}
        self._free = itertools.count()
        if device.type == "cuda":
            # So that other streams find zeros; done once for a device.
            torch.cuda.current_stream(device).synchronize()

    def take(self) -> Tensor | None:
        """Take the free counters of one launch, int32, for good; None if all are taken."""
        i = next(self._free)
        return self.counters[i] if i < COUNTERS else None


_POOLS: dict[torch.device, _Pool] = {}


def arrival_counter(device: torch.device) -> Tensor | None:
    """Return counters, int32, that are 0 whenever the next launch on the current stream begins.

    Args:
        device: the current device.

    Returns:
        The counters of one launch; None if all are taken. Also None if a graph is captured before the device
        has counters: zeros written during a capture are there only when the graph is replayed.
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
