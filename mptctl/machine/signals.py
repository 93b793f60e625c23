"""Handles Ctrl-C and SIGTERM: the first signal stops a run where nothing is lost, the second at once."""

from __future__ import annotations

import _thread
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
    """A request to stop, made by a signal; false in conditions until a signal comes.

    Attributes:
        signum: number of the signal; None before one comes.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._interrupts_at_once = False

    def __bool__(self) -> bool:
        return self.signum is not None

    @contextmanager
    def interrupts_at_once(self) -> Iterator[None]:
        """Interrupt the ``with`` block at once when a signal comes; for long work that can be repeated.

        Raises:
            KeyboardInterrupt: a signal came, or had come before the block.
        """
        before, self._interrupts_at_once = self._interrupts_at_once, True
        try:
            if self:
                raise KeyboardInterrupt
            yield
        finally:
            self._interrupts_at_once = before

    def receive(self, signum: int) -> None:
        """Record a signal.

        Raises:
            KeyboardInterrupt: inside a block of `interrupts_at_once`.
        """
        self.signum = signum
        if self._interrupts_at_once:
            raise KeyboardInterrupt


@contextmanager
def stop_on_signals(request: StopRequest | None = None) -> Iterator[StopRequest]:
    """Record SIGINT and SIGTERM during the ``with`` block; a second signal ends the process at once.

    Afterwards the former handlers are restored. But if one of several workers fails with a `MptctlError`, it
    ignores SIGTERM from then on, so that it can report its error. Outside the main thread, where Python
    allows no handlers, no signal is recorded.

    Args:
        request: records the signals; default: a new one.
    """
    stop = StopRequest() if request is None else request
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    began_in_import = is_importing(sys._getframe())

    def end_or_receive(signum: int, frame: FrameType | None) -> None:
        if stop:  # the second signal
            os._exit(128 + signum)
        if is_importing(frame) and not began_in_import:
            # An error might be lost in the import, so the signal is sent again until the import is over; not
            # by `os.kill`, since Ray's processes block SIGINT.
            threading.Timer(0.05, _thread.interrupt_main, (signum,)).start()
            return
        stop.receive(signum)

    before = {number: signal.signal(number, end_or_receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    except MptctlError:
        if world_size() > 1:
            # The launcher sends SIGTERM to all workers when one ends; this worker still has to report its
            # error.
            before[signal.SIGTERM] = signal.SIG_IGN
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible(stop: StopRequest) -> Iterator[None]:
    """Raise KeyboardInterrupt at the first Ctrl-C or SIGTERM; end the process at the second.

    Args:
        stop: records the signal, since Ray may replace the exception by its own.

    Raises:
        KeyboardInterrupt: a signal came, or had come before the block.
    """
    with stop_on_signals(stop), stop.interrupts_at_once():
        yield


@contextmanager
def stopped_with(message: str, *, resumable: bool = False) -> Iterator[StopRequest]:
    """Raise `Stopped` with a message at the first Ctrl-C or SIGTERM during the ``with`` block.

    Args:
        message: of the error.
        resumable: whether the command can go on with ``--resume``; see `Stopped`.

    Raises:
        Stopped: a signal came.
    """
    stop = StopRequest()
    try:
        with interruptible(stop):
            yield stop
    except KeyboardInterrupt:
        raise Stopped(message, stop.signum or signal.SIGINT, resumable=resumable) from None
