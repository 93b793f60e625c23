"""The repository: one set of versions, `make`, no network, and examples of docstrings that run."""

from __future__ import annotations

import doctest
import re
import socket
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pytest_socket import SocketConnectBlockedError

from mptctl.cli.unforeseen import LEFT_OUT
from tests.common import ROOT, environment
from tests.versions import pinned_versions

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAMED = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *(text for extra in PROJECT["project"]["optional-dependencies"].values() for text in extra),
]


@pytest.mark.parametrize("text", sorted({text for text in NAMED if not text.startswith("mptctl[")}))
def test_a_package_of_the_project_has_a_version_that_is_allowed(text: str) -> None:
    requirement = Requirement(text)
    pin = pinned_versions().get(canonicalize_name(requirement.name))
    assert pin is not None, "run: make constraints"
    assert requirement.specifier.contains(pin), f"{pin}; run: make constraints"


def test_there_are_names_and_versions_and_no_addresses() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*( ; [^:/@]+)?", line), line
    # One version each, whatever the Python.
    assert len({line.partition("==")[0] for line in lines}) == len(lines)


def test_the_gate_takes_the_same_versions_and_leaves_out_what_the_program_can_say_is_missing() -> None:
    lines = (ROOT / "requirements-gate.txt").read_text(encoding="utf-8").splitlines()
    gate = dict(line.partition(" ; ")[0].split("==") for line in lines)
    pins = pinned_versions()
    assert {name: str(pins[name]) for name in gate} == gate, "run: make constraints"
    needed = {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]}
    left_out = {"torch", "torchvision", "torchcodec", "nvidia-dali-cuda130", "ray", "optuna", "tensorboardx"}
    assert needed - set(gate) == left_out
    assert {name.partition("-")[0] for name in left_out} == {module.lower() for module in LEFT_OUT}


MAKEFILE = """
sound:
\t@echo sound ran
broken:
\t@exit 3
after:
\t@echo after ran
"""


def test_a_target_that_fails_does_not_stop_those_after_it_and_is_told_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    command = [ROOT / ".ci" / "each", "sound", "broken", "after"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[:2] == ["sound ran", "after ran"]
    assert [line.split()[:2] for line in lines[2:]] == [
        ["sound", "passed"], ["broken", "FAILED"], ["after", "passed"]
    ]  # fmt: skip
    assert all(line.endswith(" s") for line in lines[2:])


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_a_connection_to_another_machine_is_refused_and_one_to_this_machine_is_not() -> None:
    with pytest.raises(SocketConnectBlockedError), socket.socket() as other:
        other.connect(("192.0.2.1", 80))  # an address that is nobody's, RFC 5737
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
    # A process of its own asks a proxy that is not there.
    fetch = [sys.executable, "-c", "import urllib.request as r; r.urlopen('http://192.0.2.1', timeout=5)"]
    done = subprocess.run(fetch, env=environment(), capture_output=True, text=True, check=False)
    assert "Connection refused" in done.stderr


ROOTS = (Path(__file__).parents[1] / "mptctl", Path(__file__).parents[1] / "kernels" / "mpt_kernels")
MODULES = [
    ".".join(path.relative_to(root.parent).with_suffix("").parts)
    for root in ROOTS
    for path in sorted(root.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    result = doctest.testmod(import_module(module))
    assert result.attempted and not result.failed
