"""How a process of the check hands on what it found: a line of JSON for each result, the moment that it is there."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

# Number of the pipe that the check reads; without it a result is only printed.
PIPE = "MPTCTL_CHECK_PIPE"
Outcome = Literal["passed", "failed", "not run"]


@dataclass(frozen=True)
class Result:
    """One thing that was tried.

    Attributes:
        name: of the test, of the size, of the way to train.
        outcome: what did not run is not passed.
        seconds: that it took.
        message: why it failed or did not run, or what came out, in one line.
        data: numbers that it measured.
    """

    name: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""
    data: dict[str, Any] = field(default_factory=dict)


class NotRunError(Exception):
    """Raised by what cannot be tried here, with the reason."""


def tell(result: Result) -> None:
    """Hand a result to the check at once."""
    line = json.dumps(asdict(result)) + "\n"
    if PIPE in os.environ:
        os.write(int(os.environ[PIPE]), line.encode())
    else:
        sys.stdout.write(line)
        sys.stdout.flush()


def attempt(name: str, work: Callable[[], Result | str | None]) -> None:
    """Try one thing and tell what came of it; an error of any kind ends this thing alone.

    Args:
        name: of the thing.
        work: returns its result, or what came out in one line; raises NotRunError where it cannot be tried.
    """
    begin = time.monotonic()
    try:
        found = work()
    except NotRunError as reason:
        tell(Result(name, "not run", time.monotonic() - begin, str(reason)))
    except Exception as error:
        traceback.print_exc()
        last = (str(error).strip().splitlines() or [""])[0]
        tell(Result(name, "failed", time.monotonic() - begin, f"{type(error).__name__}: {last}"[:300]))
    else:
        seconds = time.monotonic() - begin
        tell(found if isinstance(found, Result) else Result(name, "passed", seconds, found or ""))


def pytest_runtest_logreport(report: Any) -> None:
    """Of pytest, where this file is its plugin: tell of each test when it ends, and of what broke around it."""
    if report.when == "call" or report.outcome != "passed":
        _tell_report(report, round(report.duration, 3), dict(report.user_properties))


def pytest_collectreport(report: Any) -> None:
    """Of pytest: a file that cannot be read, or that is left out as a whole, is told of too."""
    if report.outcome != "passed":
        _tell_report(report, 0.0, {})


def _tell_report(report: Any, seconds: float, data: dict[str, Any]) -> None:
    # With several processes the one that leads them hears of all tests.
    if PIPE not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
        return
    outcome: Outcome = "not run" if report.outcome == "skipped" else report.outcome
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
    lines = text.strip().splitlines() or [""]
    name = report.nodeid.rpartition("/")[2] or "collection"
    tell(Result(name, outcome, seconds, lines[-1][:300], data))
