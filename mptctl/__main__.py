"""Runs the command line, as `mptctl` and as `python -m mptctl`; Ctrl-C ends it in one line at any moment."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

from mptctl.machine.importing import is_importing

_EXIT_CODES_OF_STOPS = (128 + signal.SIGINT, 128 + signal.SIGTERM)


def main() -> None:
    """Import the command line, run it, and exit with its code.

    After a stop by a signal the process ends at once. At Ctrl-C during shutdown it ends without a traceback.
    """
    # A shell that starts a command in the background has it ignore Ctrl-C, and that stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    gc.disable()  # nothing that is imported is garbage; a command enables it again before it does its work
    from mptctl.cli.streams import flush_output, make_outputs_unfailing

    make_outputs_unfailing()
    from mptctl.cli.app import main as run

    try:
        run()
    except SystemExit as ended:
        code = flush_output(ended.code if isinstance(ended.code, int) else 0, sys.argv[1:])
        if code in _EXIT_CODES_OF_STOPS:
            # Everything is saved and printed. With torch in memory, Python's own exit takes a second or more.
            os._exit(code)
        sys.exit(code)
    finally:
        # At exit Python would search all modules for garbage, for a tenth of a second or more. With triton it
        # must: triton's library prints what of its own is left then.
        if "triton" not in sys.modules:
            gc.freeze()
        if signal.getsignal(signal.SIGINT) is _stop:
            # While Python exits, a handler in Python would print a traceback; the default action is silent.
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _stop(signum: int, frame: FrameType | None) -> None:
    """Exit at once while modules are imported and nothing is written yet; else raise KeyboardInterrupt."""
    if is_importing(frame):
        os.write(2, b"mptctl: stopped\n")
        os._exit(128 + signum)
    raise KeyboardInterrupt


if __name__ == "__main__":  # a spawned worker imports this file as well
    main()
