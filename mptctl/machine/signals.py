"""Ctrl-C and SIGTERM: the first asks the run to stop where nothing is lost, the second stops at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from mptctl.errors import MptctlError, Stopped
from mptctl.machine.facts import world_size
from mptctl.machine.importing import is_importing


class StopRequest:
    """The request that the run stop, if somebody made it, and its signal."""

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
        before, self._breaks_off = self._breaks_off, True
        try:
            if self:
                raise KeyboardInterrupt
            yield
        finally:
            self._breaks_off = before

    def heard(self, signum: int) -> None:
        """Take a signal in.

        Raises:
            KeyboardInterrupt: what is under way is to be broken off.
        """
        self.signum = signum
        if self._breaks_off:
            raise KeyboardInterrupt


@contextmanager
def stop_on_signals(request: StopRequest | None = None) -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM while a run goes on; the handlers that were there come back afterwards.

    A worker of several that ends by an error ignores SIGTERM from then on: its process is about to end by
    itself.

    Outside the main thread, where Python allows no handlers (a trial of a sweep), nothing is caught.

    Args:
        request: is told of the signals; default: one of its own.
    """
    asked = StopRequest() if request is None else request
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    is_import_itself = is_importing(sys._getframe())

    def handle(signum: int, frame: FrameType | None) -> None:
        if asked:
            os._exit(128 + signum)
        if is_importing(frame) and not is_import_itself:  # comes again, until it can be heard
            threading.Timer(0.05, os.kill, (os.getpid(), signum)).start()
        else:
            asked.heard(signum)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    except MptctlError:
        if world_size() > 1:
            # The launcher ends all workers by SIGTERM as soon as one is gone; this one still has to say why.
            before[signal.SIGTERM] = signal.SIG_IGN
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible(stop: StopRequest) -> Iterator[None]:
    """Turn the first Ctrl-C or SIGTERM into KeyboardInterrupt, and end at once on the second.

    Args:
        stop: is told which signal it was, since Ray replaces an exception by one of its own.

    Raises:
        KeyboardInterrupt: a signal came, or had come before.
    """
    with stop_on_signals(stop), stop.breaks_off():
        yield


@contextmanager
def stopped_with(message: str, *, resumable: bool = False) -> Iterator[StopRequest]:
    """Ends a command at the first Ctrl-C or SIGTERM with a message of its own.

    Args:
        message, resumable: as of `Stopped`.

    Raises:
        Stopped: a signal came.
    """
    stop = StopRequest()
    try:
        with interruptible(stop):
            yield stop
    except KeyboardInterrupt:
        raise Stopped(message, stop.signum or signal.SIGINT, resumable=resumable) from None
