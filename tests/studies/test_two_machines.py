"""A study on a Ray cluster of two machines, of which one is lost in the middle of its runs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mptctl.machine.cluster import ENVIRONMENT, LOCAL_ONLY, OBJECT_STORE_BYTES
from mptctl.models.metrics_log import read_metrics
from mptctl.names import Session
from mptctl.studies.answers import run_answers
from mptctl.studies.compare import compare_runs
from mptctl.studies.study_file import load_study
from mptctl.studies.study_plan import on_machine, plan_study
from mptctl.studies.study_state import make_splits
from mptctl.training.observer import Observer
from mptctl.training.train import train
from tests.common import environment
from tests.forked import Forked
from tests.tune.conftest import wait_for

# The first two runs, one on each machine, go on long enough for one to be lost after its first checkpoint.
STUDY = """
description: two updates of the digits
split: {source: digits}
recipe: digits
set: {optim.epochs: 16, runtime.device: cpu}
updates:
  - {method: no-treatment, set: {optim.epochs: 2}}
  - {method: mpt-kl, set: {method.k: 1, optim.epochs: 2}}
"""
SEED = 3


@dataclass(frozen=True)
class Machines:
    """A Ray cluster of two nodes: its address, and the process that started the second one."""

    address: str
    second: subprocess.Popen[bytes]


@pytest.fixture
def two_machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    """Two nodes as `ray start` makes them, each with room for one run; they ask whoever joins them for a token."""
    folder = tempfile.mkdtemp(prefix="t", dir="/tmp")  # Ray's sockets need a short path
    token = Path(folder) / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text(secrets.token_hex(32))
    monkeypatch.setenv("HOME", folder)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", *LOCAL_ONLY):  # set by a Ray of this process's own
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    port = address.partition(":")[2]
    head = ["--head", "--port", port, "--include-dashboard=false", "--temp-dir", f"{folder}/r"]
    nodes = [ray_node(*head), ray_node("--address", address)]
    try:
        wait_until_joined(address, nodes)
        yield Machines(address, nodes[1])
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def ray_node(*words: str) -> subprocess.Popen[bytes]:
    """A node of Ray's that lasts as long as this process of `ray start`."""
    node = ("--num-cpus=1", "--node-ip-address=127.0.0.1", f"--object-store-memory={OBJECT_STORE_BYTES}")
    return subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *node, *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(**ENVIRONMENT, RAY_AUTH_MODE="token"),
    )  # fmt: skip


# Begun before its cluster is there; joins it once, and ends when it has so many nodes.
JOIN = """
import socket, sys, time
host, _, port = sys.argv[1].partition(":")
while socket.socket().connect_ex((host, int(port))):
    time.sleep(0.1)
import ray
ray.init(sys.argv[1])
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    time.sleep(0.1)
"""


def wait_until_joined(address: str, nodes: list[subprocess.Popen[bytes]]) -> None:
    """Wait until the cluster has all nodes, as a process of its own is told, while all of them go on."""
    joined = subprocess.Popen(
        [sys.executable, "-c", JOIN, address, str(len(nodes))], env=environment(**ENVIRONMENT, RAY_AUTH_MODE="token"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while joined.poll() is None:
            assert all(node.poll() is None for node in nodes), "ray start has ended"
            time.sleep(0.1)
        assert joined.returncode == 0, "the cluster cannot be joined"
    finally:
        joined.kill()
        joined.wait()


def status_of(process: int) -> dict[str, str]:
    """Name and parent of a process, as Linux tells them; nothing of one that has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if line.startswith(("Name:", "PPid:")))
    return {}


def run_on(machine: subprocess.Popen[bytes], seed: Path) -> tuple[Path, int] | None:
    """The folder of a run that a node trains, once it has saved, and the node's Ray process, its worker's parent."""
    for lock in seed.glob("*/lock"):
        worker = lock.read_text().strip()
        raylet = int(status_of(int(worker or 0)).get("PPid", 0))
        node = status_of(raylet)
        if node.get("Name") == "raylet" and node["PPid"] == str(machine.pid):
            metrics = read_metrics(lock.parent / "metrics.jsonl")
            if any(line.event == "checkpoint" for line in metrics):
                return lock.parent, raylet
    return None


def without_roots(table: Any) -> Any:
    """A table with its runs named by seed and name alone."""
    return json.loads(re.sub(rf'"[^"]*/({SEED}/[\w-]+)"', r'"\1"', json.dumps(table)))


def undisturbed(folder: Path) -> dict[str, Any]:
    """The table of the same study, its runs trained in this process one after the other."""
    study = load_study(str(folder / "small.yaml"))
    root = folder / "alone"
    splits = make_splits(study, root, [SEED], None)
    updates = []
    for planned in plan_study(study, [SEED]):
        run, split = on_machine(planned, 1, "cpu"), splits[planned.split_folder]
        train(run.request(split), Observer())
        run_answers(root / run.key, Session(device="cpu"), split=split)
        if run.is_update:
            updates.append(root / run.key)
    table: dict[str, Any] = compare_runs(updates).model_dump(mode="json")
    return table


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="finds the workers through Linux's /proc")
def test_row_33_a_study_ends_complete_when_one_of_two_machines_is_lost(
    two_machines: Machines, tmp_path: Path
) -> None:
    (tmp_path / "small.yaml").write_text(STUDY, encoding="utf-8")
    words = ("small.yaml", "--run-root", "runs", "--seeds", str(SEED), "--parallel", "2", "--json")
    process = Forked("study", *words, "--ray-address", two_machines.address, cwd=tmp_path)
    try:
        seed = tmp_path / "runs" / str(SEED)
        run, raylet = wait_for(lambda: run_on(two_machines.second, seed), process)
        os.kill(raylet, signal.SIGKILL)
        out, said = process.communicate(timeout=240)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, said
    assert f"{SEED}/{run.name}: its process died; another one goes on" in said
    report = json.loads(out)
    assert {row["run"]: row["status"] for row in report["runs"]} == dict.fromkeys(
        ("old", "ref", "no-treatment", "mpt-kl"), "done"
    )
    assert without_roots(report["comparison"]) == without_roots(undisturbed(tmp_path))
