"""Runs the command line, as `mptctl` and as `python -m mptctl`; Ctrl-C ends it in one line at any moment."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

from mptctl.machine.importing import is_importing

_STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


def main() -> None:
    """Import and run the command line; end fast after a stop, and silently at Ctrl-C during shutdown."""
    # Where a shell started it in the background, Ctrl-C is ignored, and stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    gc.disable()  # nothing that is imported is garbage
    from mptctl.cli.streams import flush_output, make_outputs_unfailing

    make_outputs_unfailing()
    from mptctl.cli.app import main as run

    gc.enable()
    try:
        run()
    except SystemExit as ended:
        code = flush_output(ended.code if isinstance(ended.code, int) else 0, sys.argv[1:])
        if code in _STOPPED:
            # All is saved and said; Python's own end, with torch in memory, would take a second or more.
            os._exit(code)
        sys.exit(code)
    finally:
        gc.freeze()  # its search for garbage among all modules would take a tenth of a second
        if signal.getsignal(signal.SIGINT) is _stop:
            # While Python ends, Ctrl-C would print a traceback; by its default action it ends in silence.
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _stop(signum: int, frame: FrameType | None) -> None:
    """End at once while modules are imported, when nothing is written yet; else raise KeyboardInterrupt."""
    if is_importing(frame):
        os.write(2, b"mptctl: stopped\n")
        os._exit(128 + signum)
    raise KeyboardInterrupt


if __name__ == "__main__":  # a spawned worker imports this file as well
    main()
