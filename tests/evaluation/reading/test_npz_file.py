"""Archives that can be opened and are damaged."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from mptctl.errors import DataError, StorageError
from mptctl.evaluation.reading.predictions import (
    read_predictions,
)
from tests.evaluation.files import write


class TestArchivesThatOpenAndAreDamaged:
    def archive(self, tmp_path: Path) -> Path:
        n = 400
        return write(
            tmp_path / "p.npz",
            logits=np.eye(n, 4, dtype=np.float32),
            id=np.arange(n),
            label=np.arange(n) % 4,
            classes=np.arange(4),
        )

    @pytest.mark.parametrize("member", ["logits.npy", "label.npy", "id.npy", "classes.npy"])
    def test_a_wrong_checksum(self, tmp_path: Path, member: str) -> None:
        file = self.archive(tmp_path)
        with zipfile.ZipFile(file) as archive:
            info = archive.getinfo(member)
        content = bytearray(file.read_bytes())
        # The last byte of the member's data: its header and the archive's lists stay as they are.
        content[info.header_offset + 30 + len(member) + 20 + info.file_size - 1] ^= 1
        file.write_bytes(content)
        with pytest.raises(DataError, match=rf"p\.npz.*{member.removesuffix('.npy')}") as caught:
            read_predictions(file)
        assert caught.value.exit_code == 4

    @pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    @pytest.mark.parametrize("rows", [399, 401])
    def test_a_header_of_another_size_than_its_member(
        self, tmp_path: Path, rows: int, compression: int
    ) -> None:
        source, file = self.archive(tmp_path), tmp_path / "q.npz"
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(file, "w", compression) as new:
            for name in old.namelist():
                content = old.read(name)
                if name == "logits.npy":
                    content = content.replace(b"(400, 4)", f"({rows}, 4)".encode())
                new.writestr(name, content)
        with pytest.raises(DataError, match=r"`logits` is damaged: its header says \(\d+, 4\)"):
            read_predictions(file)

    def test_an_encrypted_member(self, tmp_path: Path) -> None:
        file = self.archive(tmp_path)
        content = bytearray(file.read_bytes())
        for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            content[content.index(signature) + offset] |= 1
        file.write_bytes(content)
        with pytest.raises(DataError, match="`logits` is encrypted"):
            read_predictions(file)

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
    def test_cut(self, tmp_path: Path, share: float) -> None:
        file = self.archive(tmp_path)
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(DataError, match="cannot be read as npz"):
            read_predictions(file)

    def test_one_array_twice(self, tmp_path: Path) -> None:
        file = self.archive(tmp_path)
        with zipfile.ZipFile(file) as archive:
            label = archive.read("label.npy")
        with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("label.npy", label)
        with pytest.raises(DataError, match="`label` heads 2 columns"):
            read_predictions(file)

    def test_more_than_the_machines_memory_is_refused_before_it_is_read(self, tmp_path: Path) -> None:
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
