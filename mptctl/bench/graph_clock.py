"""Times calls on a GPU in captured graphs, each replay on a cold cache."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

_SLEEP_CYCLES = 2_000_000  # some 1 ms, in which the host enqueues the replay
_WARM_SECONDS = 0.2  # an H200 idles at 345 MHz, and computes at 1,980 a moment after work has begun


class GraphClock:
    """A clock for calls on one GPU.

    Args:
        device: a GPU, whose clocks are raised now.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        bytes_of_cache = torch.cuda.get_device_properties(device).L2_cache_size
        self._cache = torch.zeros(bytes_of_cache // 2, device=device)  # twice the cache
        self._kept: list[Any] = []
        x = torch.randn(4096, 4096, device=device)
        end = time.perf_counter() + _WARM_SECONDS
        while time.perf_counter() < end:
            x.mm(x)
            torch.cuda.synchronize(device)

    def capture(
        self, call: Callable[[Any], object], given: Sequence[Any], repeats: int
    ) -> Callable[[], float]:
        """Capture a call on each of several inputs in one graph.

        Args:
            call: takes one of the inputs; what it returns is kept, so that no call writes to memory which an
                earlier one has left in the cache.
            given: the inputs.
            repeats: number of replays, of which the median counts.

        Returns:
            A function that replays the graph and returns microseconds of one call.
        """
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                call(given[0])
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = [call(one) for one in given]
        graph.replay()
        self._kept = [*self._kept[-8:], outputs]

        def timed() -> float:
            times: list[float] = []
            for _ in range(repeats):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                self._cache.sum()  # read, not written, so that nothing is written back while the clock runs
                torch.cuda._sleep(_SLEEP_CYCLES)
                start.record()
                graph.replay()
                end.record()
                end.synchronize()
                times.append(start.elapsed_time(end))
            return 1e3 * statistics.median(times) / len(given)

        return timed

    def close(self) -> None:
        """Let go of all outputs."""
        self._kept.clear()
        torch.cuda.empty_cache()
