"""The board of a search, told by Ray of a trial whose processes have died."""

from __future__ import annotations

from pathlib import Path

import pytest
from ray.exceptions import RayActorError
from ray.train._internal.storage import StorageContext
from ray.tune.experiment import Trial as RayTrial

from mptctl.evaluation.statistics import rate
from mptctl.tune.board import TrialTracker
from mptctl.tune.tune_report import Reference, TuneReport
from tests.common import short_recipe
from tests.tune.test_trial import plan


def test_a_trial_goes_on_until_its_processes_have_died_too_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = TuneReport(
        sampler="grid", axes=[], asha=False, epochs=2, max_er_increase=0.005, samples=91, samples_old=46,
        reference=Reference(runs=["ref"], val_error=rate(5, 91)), recipe=short_recipe(method="mpt-kl"),
        split_fingerprint="", teachers={}, trials=[],
    )  # fmt: skip
    seen: list[TuneReport] = []
    board = TrialTracker(report, tmp_path, plan(), seen.append)
    storage = StorageContext(str(tmp_path / "ray"), "search", trial_dir_name="one")
    trial = RayTrial(
        "stub", config={"point": {"method.name": "mpt-kl", "method.k": 1.0}}, storage=storage, stub=True
    )
    # A trial's errors go into a folder of Ray's, which is not started for them.
    monkeypatch.setattr(
        "ray.train._internal.storage._get_ray_train_session_dir", lambda: str(tmp_path / "session")
    )
    trial.init_local_path()
    board.on_trial_start(1, [trial], trial)
    board.on_trial_recover(1, [trial], trial)
    (found,) = seen[-1].trials
    assert (found.status, found.restarts, found.error) == ("waiting", 1, None)
    board.on_trial_start(1, [trial], trial)
    trial.handle_error(RayActorError(error_msg="worker was killed\nand more"))
    board.on_trial_error(1, [trial], trial)
    (found,) = seen[-1].trials
    assert (found.status, found.restarts) == ("failed", 1)
    assert found.error is not None
    assert found.error.startswith("its process died: ") and "\n" not in found.error
    assert TuneReport.model_validate_json((tmp_path / "trials.json").read_bytes()) == seen[-1]
