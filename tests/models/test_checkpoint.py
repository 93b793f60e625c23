"""Checkpoints: whole or not at all, digests, and files that must not be trusted."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mptctl.errors import CheckpointError, StorageError
from mptctl.models.checkpoint import (
    CheckpointMeta,
    load_checkpoint,
    save_checkpoint,
    write_atomically,
)
from mptctl.models.state_dict import read_state_dict
from mptctl.recipe import load_recipe
from tests.forked import process_of


def meta(**changes: object) -> CheckpointMeta:
    return CheckpointMeta(recipe=load_recipe("digits"), class_names=("a", "b"), num_old=1).model_copy(
        update=changes
    )


def weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "w": torch.randn(64, 64, generator=generator),
        "n": torch.tensor(3),
        "h": torch.ones(5).bfloat16(),
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "last.pt"
    state = {"optimizer": {"state": {0: {"m": torch.ones(3)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}}
    save_checkpoint(path, meta(epoch=3), weights(), state)
    return path


def test_what_is_written_is_what_is_read(saved: Path) -> None:
    read = load_checkpoint(saved)
    assert read.meta == meta(epoch=3)
    assert all(torch.equal(read.model[name], tensor) for name, tensor in weights().items())
    assert read.training is not None
    assert read.training["optimizer"]["param_groups"] == [{"lr": 0.1, "params": [0]}]


def test_the_digest_depends_on_every_part(tmp_path: Path) -> None:
    base = save_checkpoint(tmp_path / "a.pt", meta(), weights())
    assert base == save_checkpoint(tmp_path / "b.pt", meta(), weights())
    other_weights = weights()
    other_weights["w"][3, 5] += 1e-6
    changed = [
        save_checkpoint(tmp_path / "c.pt", meta(), other_weights),
        save_checkpoint(tmp_path / "d.pt", meta(epoch=1), weights()),
        save_checkpoint(tmp_path / "e.pt", meta(), weights(), {"rng": torch.zeros(1)}),
    ]
    assert len({base, *changed}) == 4


def test_the_one_before_is_kept(saved: Path) -> None:
    previous = saved.with_name("previous.pt")
    save_checkpoint(saved, meta(epoch=4), weights(), keep_previous=previous)
    assert (load_checkpoint(previous).meta.epoch, load_checkpoint(saved).meta.epoch) == (3, 4)
    assert sorted(p.name for p in saved.parent.iterdir()) == ["last.pt", "previous.pt"]


def test_half_a_file_is_incomplete_and_the_valid_one_beside_it_is_named(saved: Path) -> None:
    whole = saved.read_bytes()
    saved.with_name("previous.pt").write_bytes(whole)
    saved.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"last\.pt: incomplete.*previous\.pt"):
        load_checkpoint(saved)


def test_a_directory_on_a_second_disk_is_read_or_called_damaged(saved: Path) -> None:
    # zipfile refuses both archives with an exception of its own; torch looks at the second number alone.
    whole, digest = saved.read_bytes(), load_checkpoint(saved).digest
    locator = whole.index(b"PK\x06\x07")  # of the directory, APPNOTE.TXT 4.3.15
    for number, place in {"disk of the directory": 4, "disks in all": 16}.items():
        content = bytearray(whole)
        content[locator + place] = 2
        saved.write_bytes(content)
        if number == "disk of the directory":
            assert load_checkpoint(saved).digest == digest
        else:
            with pytest.raises(CheckpointError, match=r"last\.pt: damaged"):
                load_checkpoint(saved)


@pytest.mark.parametrize(
    "content", [b"", b"<!DOCTYPE html><html></html>", b"epoch,loss\n1,0.3\n", b"\x89PNG\r\n"]
)
def test_what_is_not_a_checkpoint_is_called_so(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not a checkpoint") as caught:
        load_checkpoint(path)
    assert "weights_only" not in str(caught.value)


def test_one_flipped_bit_in_the_weights_is_found(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    needle = weights()["w"].numpy().tobytes()[:64]
    at = bytes(content).index(needle)
    content[at + 7] ^= 1
    saved.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"digest expected [0-9a-f]{16}, found [0-9a-f]{16}"):
        load_checkpoint(saved)


class Hostile:
    """A pickle of this creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_a_pickle_that_runs_code_is_refused_and_has_not_run(how: str, tmp_path: Path) -> None:
    path, trace = tmp_path / "evil.pt", tmp_path / "ran"
    if how == "torch":
        torch.save({"model": Hostile(trace)}, path)
    else:
        path.write_bytes(pickle.dumps({"model": Hostile(trace)}))
    for read in (load_checkpoint, read_state_dict):
        with pytest.raises(CheckpointError, match=r"refused: it holds (posix|os)\.mkdir|not a checkpoint"):
            read(path)
    assert not trace.exists()


@pytest.mark.parametrize("thing", [SimpleNamespace(lr=0.1), Path("x"), np.float64(0.3)])
def test_a_foreign_checkpoint_says_what_is_in_the_way(thing: object, tmp_path: Path) -> None:
    path = tmp_path / "foreign.pt"
    torch.save({"state_dict": {"w": torch.ones(2)}, "args": thing}, path)
    with pytest.raises(CheckpointError, match=r"refused: it holds (types\.SimpleNamespace|pathlib|numpy)"):
        read_state_dict(path)


def test_a_state_dict_is_found_below_its_usual_names(tmp_path: Path) -> None:
    path = tmp_path / "s.pt"
    torch.save({"epoch": 3, "state_dict": {"module.fc.weight": torch.ones(2)}}, path)
    assert list(read_state_dict(path)) == ["fc.weight"]


def test_a_plain_state_dict_is_no_checkpoint_but_import_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.pt"
    torch.save({"w": torch.ones(2)}, path)
    with pytest.raises(CheckpointError, match="mptctl import"):
        load_checkpoint(path)


def test_a_missing_file_and_a_folder_are_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file"):
        load_checkpoint(tmp_path / "no.pt")
    with pytest.raises(CheckpointError, match="directory"):
        load_checkpoint(tmp_path)


def save_where_files_are_small(path: Path, said: Path) -> None:
    """Save another checkpoint where no file may exceed 5,000 bytes; end with the exit code of what is raised."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
    try:
        save_checkpoint(path, meta(epoch=9), weights())
    except StorageError as error:
        said.write_text(str(error))
        sys.exit(error.exit_code)


def test_a_full_disk_keeps_the_checkpoint_before_and_leaves_nothing_partial(
    saved: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    said = tmp_path_factory.mktemp("said") / "error"
    process = process_of(save_where_files_are_small, saved, said)
    process.join(120)
    assert process.exitcode == 7
    assert "MB needed" in said.read_text()
    # 5,000 bytes
    assert "more than the largest file that is allowed (ulimit -f)" in said.read_text()
    assert load_checkpoint(saved).meta.epoch == 3
    assert [p.name for p in saved.parent.iterdir()] == ["last.pt"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StorageError, match=r"file/x: cannot be written: .*; choose another folder"):
        write_atomically(tmp_path / "file" / "x", b"1")
