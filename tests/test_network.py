"""No test reaches the network: neither in pytest's process nor in one that it starts."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from pytest_socket import SocketConnectBlockedError

from tests.common import environment


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_a_connection_to_another_machine_is_refused_and_one_to_this_machine_is_not() -> None:
    with pytest.raises(SocketConnectBlockedError), socket.socket() as other:
        other.connect(("192.0.2.1", 80))  # an address that is nobody's, RFC 5737
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())


def test_a_process_of_its_own_asks_a_proxy_that_is_not_there() -> None:
    fetch = "import urllib.request as r; r.urlopen('http://192.0.2.1', timeout=5)"
    done = subprocess.run(
        [sys.executable, "-c", fetch], env=environment(), capture_output=True, text=True, check=False
    )
    assert "Connection refused" in done.stderr
