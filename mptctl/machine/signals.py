"""Ctrl-C and SIGTERM: the first asks the run to stop where nothing is lost, the second stops at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody asked the run to stop, and with which signal."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self._breaks_off = False

    def __bool__(self) -> bool:
        return self.signum is not None

    @contextmanager
    def breaks_off(self) -> Iterator[None]:
        """Around work that is long and can be done anew: a signal breaks it off where it is.

        Raises:
            KeyboardInterrupt: a signal came, or had come before.
        """
        self._breaks_off = True
        try:
            if self:
                raise KeyboardInterrupt
            yield
        finally:
            self._breaks_off = False

    def heard(self, signum: int) -> None:
        """Take a signal in.

        Raises:
            KeyboardInterrupt: what is under way is to be broken off.
        """
        self.signum = signum
        if self._breaks_off:
            raise KeyboardInterrupt


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM while a run goes on; the handlers that were there come back afterwards.

    Outside the main thread, where Python allows no handlers (a trial of a sweep), nothing is caught.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        if request:
            os._exit(128 + signum)
        request.heard(signum)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
