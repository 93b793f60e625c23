"""What a test process that crashed leaves behind: how it ended, and where each of its threads was."""

from __future__ import annotations

import faulthandler
import os
import tempfile
from pathlib import Path

import pytest
from xdist.workermanage import WorkerController

_FOLDER = "MPTCTL_CRASHED_WORKERS"  # in the environment that the workers take over
_RUNNERS = ("_pytest", "pluggy", "xdist", "execnet")
_ENDED = pytest.StashKey[dict[str, int | str]]()


def _worker(config: pytest.Config) -> str | None:
    """The name of this process among those of xdist; None in the one that starts them."""
    found: str | None = getattr(config, "workerinput", {}).get("workerid")
    return found


# After pytest's own, which writes to standard error: far above the end of a long log.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have a worker write its stacks to a file when it crashes."""
    worker = _worker(config)
    if worker is None:
        folder = tempfile.TemporaryDirectory(prefix="crashed-workers-")
        config.add_cleanup(folder.cleanup)
        config.stash[_ENDED] = {}
        os.environ[_FOLDER] = folder.name
    else:
        faulthandler.enable(file=os.open(Path(os.environ[_FOLDER], worker), os.O_CREAT | os.O_WRONLY))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController, error: object) -> None:
    """Remember with which exit status a worker was lost; negative: the signal that ended it."""
    if error:
        try:
            ended: int | str = node.gateway._io.popen.wait(timeout=10)
        except (
            Exception
        ) as unknown:  # the attributes are not xdist's promise; the failure itself is to be seen
            ended = f"unknown ({unknown!r})"
        node.config.stash[_ENDED][node.gateway.id] = ended


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show it at the end of the log, without the frames of what runs the tests."""
    for worker, ended in config.stash.get(_ENDED, {}).items():
        terminalreporter.section(f"worker {worker} ended with {ended}")
        stacks = Path(os.environ[_FOLDER], worker)
        # A process that is lost while it starts has no file yet.
        for line in stacks.read_text(encoding="utf-8").splitlines() if stacks.exists() else ():
            if not any(f"/{runner}/" in line for runner in _RUNNERS):
                terminalreporter.line(line)
