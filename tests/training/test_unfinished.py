"""Runs of a study or of a search: those that are finished are left alone, and one that fails is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mptctl.data.split import Split
from mptctl.errors import NonFiniteError
from mptctl.models.run_folder import RunDir
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train_unfinished
from tests.common import Train, short_recipe


def test_a_finished_run_is_not_trained_again_and_the_error_of_a_run_is_raised(
    digits: Split, run: Train
) -> None:
    result, _ = run(short_recipe("runtime.seed=1"), "done")
    written = result.run.metrics.read_bytes()
    bad = digits.run_root / "bad"

    def request_of(folder: Path) -> RunRequest:
        recipe = short_recipe("optim.lr=1e30", "optim.warmup_epochs=0", "optim.epochs=20")
        return RunRequest(recipe, digits, folder).resume_or_restart()

    done = result.run.path
    train_unfinished(done, lambda: request_of(done), Observer())
    with pytest.raises(NonFiniteError, match=str(bad)):
        train_unfinished(bad, lambda: request_of(bad), Observer())
    assert result.run.metrics.read_bytes() == written
    assert not RunDir(bad).is_finished()


def test_a_run_that_was_begun_goes_on_and_one_that_was_not_begins(digits: Split, run: Train) -> None:
    result, _ = run(short_recipe("optim.epochs=2"), "half")
    begun = RunRequest(short_recipe(), digits, result.run.path).resume_or_restart()
    assert (begun.resume, begun.overwrite) == (True, False)
    new = RunRequest(short_recipe(), digits, digits.run_root / "new").resume_or_restart()
    assert (new.resume, new.overwrite) == (False, True)
