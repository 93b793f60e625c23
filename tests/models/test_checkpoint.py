"""Checkpoints: whole or not at all, digests, and files that must not be trusted."""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mptctl.errors import CheckpointError, StorageError
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint, save_checkpoint
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


@pytest.mark.parametrize(("place", "is_read"), [(4, True), (16, False)], ids=["of the directory", "in all"])
def test_a_number_of_disks_is_read_or_called_damaged(saved: Path, place: int, is_read: bool) -> None:
    # zipfile refuses both archives with an exception of its own; torch looks at the second number alone.
    content, digest = bytearray(saved.read_bytes()), load_checkpoint(saved).digest
    content[content.index(b"PK\x06\x07") + place] = 2  # in the directory's locator, APPNOTE.TXT 4.3.15
    saved.write_bytes(content)
    if is_read:
        assert load_checkpoint(saved).digest == digest
    else:
        with pytest.raises(CheckpointError, match=r"last\.pt: damaged"):
            load_checkpoint(saved)


@pytest.mark.parametrize("keys", [["state_dict"], ["net"], ["weights"], ["model", "state_dict"]])
def test_a_state_dict_is_found_below_its_usual_names(keys: list[str], tmp_path: Path) -> None:
    path = tmp_path / "s.pt"
    content: dict[str, object] = {"module.fc.weight": torch.ones(2)}
    for key in reversed(keys):
        content = {"epoch": 3, key: content}
    torch.save(content, path)
    assert list(read_state_dict(path)) == ["fc.weight"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"network": {"fc.weight": torch.ones(2)}, "acc": 91}, "no tensor under network, acc"),
        ({"fc.weight": torch.ones(2), "acc": 91}, "no tensor under acc"),
        ([torch.ones(2)], "no tensor under any name"),
    ],
)
def test_names_that_hold_no_tensors_are_said(content: object, said: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "s.pt")
    with pytest.raises(CheckpointError, match=f"under state_dict, model_state_dict, .*{said};"):
        read_state_dict(tmp_path / "s.pt")


def test_arrays_of_numpy_are_no_checkpoint(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", weight=np.ones(2))
    with pytest.raises(CheckpointError, match=r"s\.npz: not a checkpoint: .*torch\.save wrote"):
        read_state_dict(tmp_path / "s.npz")


def test_two_tensors_of_one_name_are_refused_by_both_names(tmp_path: Path) -> None:
    path = tmp_path / "s.pt"
    torch.save({"fc.weight": torch.ones(2), "module.fc.weight": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match=r"weight: fc\.weight and module\.fc\.weight"):
        read_state_dict(path)


def test_a_missing_file_a_folder_and_a_state_dict_are_said_to_be_so(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "s.pt")
    for path, said in (("no.pt", "No such file"), ("", "directory"), ("s.pt", "mptctl import")):
        with pytest.raises(CheckpointError, match=said):
            load_checkpoint(tmp_path / path)


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
