"""Counters by which the last program of a launch knows that all others are done, so that it can sum up rows.

A launch needs a counter that is 0 and that no other launch uses at the same time. The launch's last program
sets the counter back to 0. The launches of a stream follow each other, so they share a counter. A captured
launch may be replayed on any stream, so it keeps a counter of its own, until its graph is dropped.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

# Launches that can have counters at once on a device: those of a stream have one's, and each captured launch of
# a graph that is there.
COUNTERS = 1024
# A launch has a counter of its own, and one for each group of its programs. They lie a line of the cache
# apart, 32 ints, so that arrivals at one do not wait for those at another.
GROUPS = 32
COUNTER_INTS = 32
_INTS = (1 + GROUPS) * COUNTER_INTS


class _Pool:
    """The counters of one device, and by stream the counters that are taken."""

    def __init__(self, device: torch.device) -> None:
        self.counters = torch.zeros(COUNTERS, _INTS, dtype=torch.int32, device=device)
        self.of_stream: dict[int, Tensor | None] = {}
        self.free = deque(range(COUNTERS))
        if device.type == "cuda":
            # So that other streams find zeros; done once for a device.
            torch.cuda.current_stream(device).synchronize()

    def take(self) -> Tensor | None:
        """Take the free counters of one launch, int32; None if all are taken."""
        return self.counters[self.free.popleft()] if self.free else None


_POOLS: dict[torch.device, _Pool] = {}
# Counters that captured launches took, for the innermost `captured_counters` block.
_captured: list[list[Tensor]] = []


@contextmanager
def captured_counters() -> Iterator[list[Tensor]]:
    """Collect the counters that launches take while a graph is captured in the block.

    Yields:
        The counters, to be handed to `give_back_counters` when the graph is dropped.
    """
    _captured.append([])
    try:
        yield _captured[-1]
    finally:
        _captured.pop()


def give_back_counters(counters: list[Tensor]) -> None:
    """Make counters of a dropped graph free for others, and empty the list; no replay may still run."""
    for counter in counters:
        _POOLS[counter.device].free.append(int(counter.storage_offset()) // _INTS)
    counters.clear()


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
        counter = pool.take()
        if counter is not None and _captured:
            _captured[-1].append(counter)
        return counter
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    if stream not in pool.of_stream:
        pool.of_stream[stream] = pool.take()
    return pool.of_stream[stream]
