"""Packages for a GPU machine: pieces that are put together there, and what is missing or damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.gpu_packages import unpack, write_pieces

SIZE = 1000


@pytest.fixture
def pieces(tmp_path: Path) -> Path:
    """An archive of random bytes, which cannot be compressed: 3,500 of them in at least four pieces."""
    site, out = tmp_path / "site", tmp_path / "out"
    (site / "package").mkdir(parents=True)
    (site / "package" / "extension.so").write_bytes(os.urandom(3500))
    out.mkdir()
    write_pieces("dali", site, out, SIZE)
    return out


def test_pieces_are_small_and_are_put_together(pieces: Path, tmp_path: Path) -> None:
    written = sorted(pieces.glob("dali-*"))
    assert len(written) >= 4
    assert all(piece.stat().st_size <= SIZE for piece in written)
    unpack(pieces, tmp_path / "there")
    packed, there = (tmp_path / place / "package" / "extension.so" for place in ("site", "there"))
    assert there.read_bytes() == packed.read_bytes()


def test_a_piece_that_is_not_here_yet_is_waited_for(
    pieces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pieces / "dali-01").unlink()
    unpack(pieces, tmp_path / "there")
    assert capsys.readouterr().out == "dali: dali-01 not here yet\n"
    assert not (tmp_path / "there").exists()


def test_a_piece_that_was_damaged_on_its_way_is_refused(pieces: Path, tmp_path: Path) -> None:
    (pieces / "dali-01").write_bytes(b"cut short")
    with pytest.raises(SystemExit, match="dali-01: damaged on its way"):
        unpack(pieces, tmp_path / "there")
    assert not (tmp_path / "there").exists()
