"""Archives that can be opened, and are damaged in ways that no random damage has."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from mptctl.errors import DataError, StorageError
from mptctl.evaluation.reading.predictions import read_predictions
from tests.evaluation.files import write


def test_one_array_twice(tmp_path: Path) -> None:
    file = write(tmp_path / "p.npz", id=[1, 2], label=[0, 1], pred=[0, 1])
    with zipfile.ZipFile(file) as archive:
        label = archive.read("label.npy")
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("label.npy", label)
    with pytest.raises(DataError, match="`label` heads 2 columns"):
        read_predictions(file)


def test_more_than_the_machines_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A header of 4 TB whose archive says so too: nothing is allocated."""
    file, header = tmp_path / "p.npz", np.lib.format.magic(1, 0)
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000), }".ljust(117) + b"\n"
    member = header + len(text).to_bytes(2, "little") + text
    write(file, id=[1], label=[0])
    size = len(member) + 4 * 10**12
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", member)
        info = archive.getinfo("logits.npy")
        info.file_size = size
    assert zlib.crc32(member) == info.CRC
    with pytest.raises(StorageError, match=r"`logits` needs 4000\.0 GB of memory"):
        read_predictions(file)


def test_a_wrong_checksum_of_logits_that_are_mapped(tmp_path: Path) -> None:
    logits, rows = np.eye(400, 4, dtype=np.float32), np.arange(400)
    file = write(tmp_path / "p.npz", id=rows, label=rows % 4, logits=logits)
    content = bytearray(file.read_bytes())
    content[content.index(logits.tobytes()) + logits.nbytes - 1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"p\.npz: the checksum of `logits` is wrong"):
        read_predictions(file)
