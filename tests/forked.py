"""Command lines in processes forked from one that holds their imports: of their own, and begun in no time."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.common import ROOT, environment

# What commands import, most of it within seconds.
_IMPORTS = (
    "torch._dynamo", "torchvision", "tensorboardX", "optuna", "duckdb", "scipy.stats", "matplotlib.figure",
    "mptctl.cli.app", "mptctl.training.train", "mptctl.training.dry_run", "mptctl.tune.sweep", "mptctl.studies.study",
    "mptctl.inference.named_models", "mptctl.evaluation.evaluate", "mptctl.report.documents.flips_files",
    "tests.forked",
)  # fmt: skip
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(list(_IMPORTS))
# The standard library's record of the process that is forked; no public function hands it to another process.
_server: Any = forkserver._forkserver  # type: ignore[attr-defined]


class Forked:
    """A command line that runs, with those parts of `subprocess.Popen` that tests use; its output is text.

    Args:
        words: of the command line, without the program.
        cwd: its working folder; this process's own by default.
        stdin: a file or terminal that it reads.
        more: variables of its environment beside those of `environment`.
    """

    def __init__(self, *words: object, cwd: Path | None = None, stdin: str = os.devnull, **more: str) -> None:
        self.args = [str(word) for word in words]
        self.returncode: int | None = None
        self._said: tuple[str, str] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="forked-", ignore_cleanup_errors=True)
        self._paths = [Path(self._folder.name) / name for name in ("out", "err")]
        for path in self._paths:
            path.touch()
        given = (self.args, cwd or Path.cwd(), environment(**more), stdin, *self._paths)
        self._process = process_of(_run, *given)

    @property
    def pid(self) -> int:
        """Number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        self.returncode = self._process.exitcode
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, where it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Standard output and standard error, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it goes on after so many seconds.
        """
        if self._said is None:
            self._process.join(timeout)
            if self.poll() is None:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            out, err = (path.read_text(encoding="utf-8", errors="backslashreplace") for path in self._paths)
            self._folder.cleanup()
            self._said = out, err
        return self._said


def mptctl_process(*words: object, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end in a process of its own."""
    process = Forked(*words, cwd=cwd, **more)
    try:
        out, err = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode or 0, out, err)


def workers(count: int, *words: object) -> list[Forked]:
    """Start a command line as so many workers of one distributed run, as the launcher of torch would."""
    return [Forked(*words, **variables) for variables in places(count)]


def places(count: int) -> list[dict[str, str]]:
    """The variables of the environment by which torch tells each worker of a distributed run its place."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{"RANK": str(i), "LOCAL_RANK": str(i), **shared} for i in range(count)]


def process_of(target: Callable[..., None], *given: object) -> BaseProcess:
    """Start a function, of a module that can be imported, in a process that holds the imports of commands."""
    process = forking().Process(target=target, args=given)
    process.start()
    return process


def forking() -> ForkServerContext:
    """The context of multiprocessing whose processes hold the imports of commands."""
    _start_server()
    return PROCESSES


def share_server() -> str:
    """Start the process that is forked, also for processes that this one outlives; its address, for `join_server`."""
    _start_server()
    address: str = _server._forkserver_address
    return address


def join_server(address: str) -> None:
    """Take the process of another one, at that address, to be forked; to make one takes five seconds."""
    _server._forkserver_address = address
    # A descriptor that every process which is forked is given, and by which it would keep alive a server of its own.
    _server._forkserver_alive_fd = os.pipe()[1]
    _server.ensure_running = lambda: None


def _start_server() -> None:
    """Start the process that is forked, if it is not there: in the environment of a command, where it imports."""
    kept = dict(os.environ)
    os.environ.update(environment())
    try:
        _server.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _run(words: list[str], cwd: Path, variables: Mapping[str, str], stdin: str, out: Path, err: Path) -> None:
    """Be the program: in its folder and its environment, its output in files, with its exit code."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(variables)
    tempfile.tempdir = None  # found anew, from these variables
    for number, path in enumerate((stdin, out, err)):
        file = os.open(path, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    # As `python -m` has it.
    code = program(str(ROOT / "mptctl" / "__main__.py"), words)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def program(name: str, words: list[str]) -> int:
    """The exit code of the program, started by a name, on a command line, in this process."""
    from mptctl.__main__ import main

    sys.argv = [name, *words]
    try:
        main()
    except SystemExit as ended:
        sys.stdout.flush()
        sys.stderr.flush()
        return ended.code if isinstance(ended.code, int) else 0
    return 98
