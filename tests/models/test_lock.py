"""The lock of a run folder: who only looks whether it is held never keeps a run from starting."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from mptctl.models.lock import is_free
from mptctl.models.ownership import LOCK
from mptctl.models.run_folder import RunDir

LOOKERS, STARTS = 3, 100


def test_a_run_starts_while_others_look_whether_its_folder_is_free(tmp_path: Path) -> None:
    """`runs`, `split --overwrite` and studies look so, at any moment."""
    folder, ended = tmp_path / "run", threading.Event()
    folder.mkdir()
    (folder / LOCK).touch()  # as a killed run leaves it

    def look() -> None:
        while not ended.is_set():
            is_free(folder)

    lookers = [threading.Thread(target=look) for _ in range(LOOKERS)]
    for each in lookers:
        each.start()
    try:
        for _ in range(STARTS):
            with RunDir(folder).locked("refuse"):
                pass
            (folder / LOCK).touch()
    finally:
        ended.set()
        for each in lookers:
            each.join()


def test_a_run_waits_for_one_that_looks(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    looking = os.open(tmp_path / LOCK, os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.3, os.close, [looking]).start()
    began = time.monotonic()
    with RunDir(tmp_path).locked("refuse"):
        assert time.monotonic() - began > 0.2
        assert not is_free(tmp_path)
