"""Runs that are made from another one are written whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split
from mptctl.errors import StorageError
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint
from mptctl.models.networks import SMALL_NETS, SmallResNet
from mptctl.models.ownership import Existing
from mptctl.models.records import Adjustment
from mptctl.models.run_folder import RunDir
from mptctl.release.new_run import write_run
from tests.common import files_of_at_most, short_recipe


def test_a_model_without_room_leaves_the_run_that_was_there_or_none(digits: Split, tmp_path: Path) -> None:
    run = RunDir(tmp_path / "adjusted")

    def write(seed: int, existing: Existing) -> None:
        torch.manual_seed(seed)
        model = SmallResNet(10, *SMALL_NETS["digits-net"])
        adjustment = Adjustment(
            adjusted="mpt", digest="", kind="none", biases={}, temperature=2.0, confidence=0.95
        )
        meta = CheckpointMeta(
            recipe=short_recipe(), class_names=digits.classes.names, num_old=5, adjustment=adjustment
        )
        write_run(run, existing, meta, model.state_dict(), digits)

    def held() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in run.path.iterdir()}

    with files_of_at_most(100_000), pytest.raises(StorageError, match="no room"):
        write(1, "refuse for good")
    assert not run.path.exists()
    write(1, "refuse for good")
    first = held()
    with files_of_at_most(100_000), pytest.raises(StorageError, match="no room"):
        write(2, "replace")
    assert held() == first
    write(2, "replace")
    assert held().keys() == first.keys()
    assert held()["best.pt"] != first["best.pt"]
    assert run.is_finished()
    load_checkpoint(run.best)
