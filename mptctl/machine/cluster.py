"""Ray for the time of a search: on this machine by default, quiet, and gone afterwards."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from mptctl.errors import MptctlError, UsageError, one_line
from mptctl.files.scratch import PREFIX, scratch_folder, temporary_directory
from mptctl.machine.facts import usable_cores
from mptctl.machine.ray_watchdog import nothing_left_behind
from mptctl.machine.signals import StopRequest, interruptible

# Ray makes its own folder with mode 0777, hence one below ours.
INNER = "r"
# The longest path that Ray makes a socket of, below ours (ray 2.60, _private/node.py), with the highest
# number that Linux gives a process; unix(7) has room for 107 bytes.
SOCKET = f"{INNER}/session_2025-01-01_00-00-00_000000_4194304/sockets/plasma_store"
MOST_SOCKET_BYTES = 107
# Trials give Ray a few numbers; the least that its object store takes is plenty.
OBJECT_STORE_BYTES = 80 * 2**20
# A machine that is busy with other things may take longer than the half minute that Ray waits for itself.
START_ATTEMPTS = 3
# New processes that a run or trial gets at most, after its own has died.
MAX_RESTARTS = 3
# Read by Ray when it is imported or started: no reports of usage, no tables of its own, no process for each
# core before one is wanted, trials as urgent as any other training, and Ctrl-C is ours.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "600",
}
# Its name notwithstanding, this is what keeps Ray's servers on the loopback device, so that nobody else
# reaches them.
LOCAL_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# `ray start --head` asks whoever joins for the token that is in its home folder; who joins by an address
# shows one only when it is told to (ray 2.60, authentication_token_setup.py).
WITH_TOKEN = {"RAY_AUTH_MODE": "token"}
TOKEN = Path(".ray/auth_token")
# A Ray of our own has a token of its own: by itself Ray writes one to the home folder, and two programs that
# start their first Ray at once overwrite each other's.
_OWN_TOKEN = secrets.token_hex(32)


@contextmanager
def ray_folder() -> Iterator[Path]:
    """A folder for Ray, not made yet, in one that nobody else can enter and that is removed afterwards.

    Raises:
        UsageError: the temporary directory's path is too long for Ray's sockets.
        StorageError: the temporary directory cannot be written.
    """
    parent = temporary_directory()
    excess = len(os.fsencode(parent / f"{PREFIX}12345678" / SOCKET)) - MOST_SOCKET_BYTES
    if excess > 0:
        raise UsageError(
            f"{parent}: {excess} characters too long for Ray's sockets; set TMPDIR to a shorter path"
        )
    with scratch_folder() as folder:
        yield folder / INNER


def quiet(address: str | None) -> None:
    """Set what Ray reads from the environment, before it is imported; what the user has set stays.

    Args:
        address: of a cluster, or None for this machine.
    """
    if address is None:
        chosen = LOCAL_ONLY | ({} if _token_in_environment() else {"RAY_AUTH_TOKEN": _OWN_TOKEN})
    else:
        chosen = WITH_TOKEN if _token_in_environment() or (Path.home() / TOKEN).is_file() else {}
    for name, value in (ENVIRONMENT | chosen).items():
        os.environ.setdefault(name, value)
    if not os.environ.get("MPTCTL_DEBUG"):
        logging.getLogger("ray").setLevel(logging.CRITICAL)  # what matters of it, the board says


def _token_in_environment() -> bool:
    return bool({"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys())


@contextmanager
def silence_stdout() -> Iterator[None]:
    """Keep Ray's notes on its processes off standard output; `--debug` shows them on standard error."""
    with ExitStack() as stack:
        debug = os.environ.get("MPTCTL_DEBUG")
        sink = sys.stderr if debug else stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        stack.enter_context(redirect_stdout(sink))
        yield


@contextmanager
def ray_cluster(
    address: str | None, cpus: int, gpus: float, stop: StopRequest, cores: int | None = None
) -> Iterator[None]:
    """Start Ray here, or join a cluster; leave nothing behind.

    Args:
        address: of a cluster, or None for this machine.
        cpus, gpus: what one trial takes.
        stop: as of `interruptible`.
        cores: of this machine that Ray may count on; None: all.

    Raises:
        UsageError: no trial fits into what is there, or there is no cluster at the address.
    """
    import ray

    if address is not None:
        _refuse_if_silent(address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    with ExitStack() as stack:
        if address is None:
            folder = stack.enter_context(ray_folder())
            stack.enter_context(nothing_left_behind(folder))
            options |= {
                "address": "local",
                "num_cpus": cores or usable_cores(),
                "include_dashboard": False,
                "_node_ip_address": "127.0.0.1",
                "_temp_dir": str(folder),
                "object_store_memory": OBJECT_STORE_BYTES,
            }
        else:
            options["address"] = address
        _init(options, address)
        stack.callback(ray.shutdown)
        _refuse_what_does_not_fit(ray.cluster_resources(), cpus, gpus)
        with interruptible(stop):  # once more, since Ray puts a handler of its own in place, which aborts
            yield


def _init(options: dict[str, Any], address: str | None) -> None:
    """Start Ray, or join a cluster, in a few attempts."""
    import ray

    for attempt in range(START_ATTEMPTS):
        try:
            ray.init(**options)
            break
        except Exception as error:  # Ray raises many kinds, plain Exception among them
            ray.shutdown()
            if address is not None or attempt + 1 == START_ATTEMPTS:
                where = f"--ray-address {address}" if address else "Ray"
                advice = (
                    f"; if it asks for a token, copy ~/{TOKEN} of its head to this machine" if address else ""
                )
                raise (UsageError if address else MptctlError)(
                    f"{where}: cannot be used: {one_line(error)[:200]}{advice}"
                ) from error


def _refuse_what_does_not_fit(there: dict[str, float], cpus: int, gpus: float) -> None:
    for flag, wanted, what in (("--cpus-per-trial", cpus, "CPU"), ("--gpus-per-trial", gpus, "GPU")):
        found = there.get(what, 0.0)
        if wanted > found:
            raise UsageError(f"{flag} {wanted:g}: more than the {found:g} that are there; give fewer")


def _refuse_if_silent(address: str) -> None:
    """Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:
        return  # "auto", or a form that only Ray reads
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise UsageError(
            f"--ray-address {address}: nobody answers there ({error.strerror or error}); start a cluster "
            "with ray start --head, or leave the flag out"
        ) from error
