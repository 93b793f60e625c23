"""Starts Ray for a search or a study, or joins a Ray cluster, and removes everything afterwards."""

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
from mptctl.machine.ray_watchdog import end_ray_afterwards
from mptctl.machine.signals import StopRequest, interruptible
from mptctl.names import PLUGINS

# Ray's folder, below a private one, since Ray makes its folder with mode 0777.
INNER = "r"
# Longest path of Ray's sockets below the private folder (ray 2.60, _private/node.py), with the highest
# process number of Linux; unix(7) allows paths of 107 bytes.
SOCKET = f"{INNER}/session_2025-01-01_00-00-00_000000_4194304/sockets/plasma_store"
MAX_SOCKET_BYTES = 107
# The smallest object store that Ray allows; trials exchange only a few numbers.
OBJECT_STORE_BYTES = 80 * 2**20
# On a busy machine Ray may take longer to start than the half minute for which it waits.
START_ATTEMPTS = 3
# Most times that a run or trial is restarted after its process has died.
MAX_RESTARTS = 3
# Ray reads these when it is imported or started: no usage reports, no tables of its own, no processes started
# in advance, normal priority for trials, a machine that hangs is given up after a minute (not after eight),
# and no handler of Ctrl-C.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",
    "RAY_grpc_client_keepalive_time_ms": "10000",
    "RAY_grpc_client_keepalive_timeout_ms": "10000",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "600",
}
# Despite its name, this setting keeps Ray's servers on the loopback device, where other machines cannot reach
# them.
LOCAL_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# `ray start --head` requires the token in its home folder from programs that join. A program that joins by an
# address sends a token only with this setting (ray 2.60, authentication_token_setup.py).
WITH_TOKEN = {"RAY_AUTH_MODE": "token"}
TOKEN = Path(".ray/auth_token")
# Token of a Ray that is started here. Without it Ray writes a token to the home folder, where two programs
# that start at once overwrite each other's token.
_OWN_TOKEN = secrets.token_hex(32)


@contextmanager
def ray_folder() -> Iterator[Path]:
    """Make a private temporary folder; give the path of Ray's folder in it, which Ray itself makes.

    Everything is removed when the ``with`` block ends.

    Raises:
        UsageError: the path of the temporary directory is too long for Ray's sockets.
        StorageError: the temporary directory cannot be written.
    """
    parent = temporary_directory()
    excess = len(os.fsencode(parent / f"{PREFIX}12345678" / SOCKET)) - MAX_SOCKET_BYTES
    if excess > 0:
        raise UsageError(
            f"{parent}: {excess} characters too long for Ray's sockets; set TMPDIR to a shorter path"
        )
    with scratch_folder() as folder:
        yield folder / INNER


def set_ray_environment(address: str | None) -> None:
    """Set Ray's environment variables and quieten its log; call before Ray is imported.

    Variables that the user has set stay. With MPTCTL_DEBUG the log stays as it is.

    Args:
        address: of a cluster; None: Ray is started on this machine.
    """
    variables = dict(ENVIRONMENT)
    if address is None:
        variables |= LOCAL_ONLY
        if not _has_token_in_environment():
            variables["RAY_AUTH_TOKEN"] = _OWN_TOKEN
    elif _has_token_in_environment() or (Path.home() / TOKEN).is_file():
        variables |= WITH_TOKEN
    for name, value in variables.items():
        os.environ.setdefault(name, value)
    if not os.environ.get("MPTCTL_DEBUG"):
        logging.getLogger("ray").setLevel(logging.CRITICAL)  # the board reports errors of trials


def _has_token_in_environment() -> bool:
    """Tell whether the user has set a token for Ray."""
    return bool({"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys())


@contextmanager
def silence_stdout() -> Iterator[None]:
    """Discard standard output during the ``with`` block; with `--debug` send it to standard error."""
    with ExitStack() as stack:
        debug = os.environ.get("MPTCTL_DEBUG")
        sink = sys.stderr if debug else stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        stack.enter_context(redirect_stdout(sink))
        yield


@contextmanager
def ray_cluster(
    address: str | None, cpus: int, gpus: float, stop: StopRequest, cores: int | None = None
) -> Iterator[None]:
    """Start Ray on this machine, or join a cluster; end it, its processes and files after the ``with`` block.

    Args:
        address: of a cluster that answers (see `refuse_if_silent`); None: start Ray on this machine.
        cpus: CPUs of one trial.
        gpus: GPUs of one trial; may be a fraction.
        stop: set when a signal comes; see `interruptible`.
        cores: cores of this machine for Ray; None: all usable ones.

    Raises:
        UsageError: there are fewer CPUs or GPUs than one trial takes, or no cluster at the address.
        MptctlError: Ray does not start on this machine.
        KeyboardInterrupt: a signal came.
    """
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    with ExitStack() as stack:
        if address is None:
            folder = stack.enter_context(ray_folder())
            stack.enter_context(end_ray_afterwards(folder))
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
            if os.environ.get(PLUGINS):  # workers that are started here have this process's environment
                options["runtime_env"] = {"env_vars": {PLUGINS: os.environ[PLUGINS]}}
        _init(options, address)
        stack.callback(ray.shutdown)
        _refuse_large_trials(ray.cluster_resources(), cpus, gpus)
        with interruptible(stop):  # set here again, since Ray has installed its own handlers, which abort
            yield


def _init(options: dict[str, Any], address: str | None) -> None:
    """Start Ray in up to `START_ATTEMPTS` attempts, or join a cluster in one.

    Raises:
        UsageError: the cluster cannot be joined.
        MptctlError: Ray does not start.
    """
    import ray

    for attempt in range(START_ATTEMPTS):
        try:
            ray.init(**options)
            break
        except Exception as error:  # Ray raises many kinds, plain Exception among them
            ray.shutdown()
            reason = one_line(error)[:200]
            if address is not None:
                raise UsageError(
                    f"--ray-address {address}: cannot be used: {reason}; if it asks for a token, copy "
                    f"~/{TOKEN} of its head to this machine"
                ) from error
            if attempt + 1 == START_ATTEMPTS:
                raise MptctlError(f"Ray: cannot be used: {reason}") from error


def _refuse_large_trials(resources: dict[str, float], cpus: int, gpus: float) -> None:
    """Raise UsageError if a trial takes more CPUs or GPUs than Ray's ``resources`` have."""
    for flag, wanted, kind in (("--cpus-per-trial", cpus, "CPU"), ("--gpus-per-trial", gpus, "GPU")):
        available = resources.get(kind, 0.0)
        if wanted > available:
            raise UsageError(f"{flag} {wanted:g}: more than the {available:g} that are there; give fewer")


def refuse_if_silent(address: str | None) -> None:
    """Raise UsageError at once if nothing listens at HOST:PORT, where Ray would try for minutes."""
    if address is None:
        return
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:
        return  # "auto", or another form that Ray itself reads
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise UsageError(
            f"--ray-address {address}: nobody answers there ({error.strerror or error}); start a cluster "
            "with ray start --head, or leave the flag out"
        ) from error
