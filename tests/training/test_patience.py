"""A run that ends where the validation error falls no more, with the other settings of fine-tuning."""

from __future__ import annotations

from pathlib import Path

import pytest

from mptctl.data.split import Split, make_split
from mptctl.errors import UsageError
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import MetricsLine, epochs_without_gain, planned_epochs, read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.recipe import load_recipe
from mptctl.release.adjust import count_candidates
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import Log, assert_goes_on, short_recipe
from tests.forked import workers

# A rate at which the error does not fall from epoch to epoch.
STALLS = (
    "optim.schedule=constant", "optim.patience=2", "optim.epochs=12", "optim.lr=1e-7", "optim.momentum=0",
)  # fmt: skip
FINE_TUNING = (
    "optim.name=adamw", "optim.layer_decay=0.7", "optim.no_decay=true", "optim.head_lr=0.01", "optim.ema=0.5",
    "model.freeze=[stem, norm-statistics]",
)  # fmt: skip


def line(epoch: int, error: float) -> MetricsLine:
    return MetricsLine(event="epoch", epoch=epoch, step=epoch, val_error=error)


def test_epochs_are_counted_from_the_first_one_with_the_lowest_error() -> None:
    lines = [line(1, 0.1), line(2, 0.4), line(3, 0.3), line(4, 0.3), line(5, 0.35)]
    assert epochs_without_gain(lines) == 4
    assert epochs_without_gain(lines, first=1) == 2
    assert epochs_without_gain(lines[:3], first=1) == 0
    assert epochs_without_gain([]) == 0


def test_a_run_out_of_patience_ends_and_resuming_it_trains_nothing(digits: Split, tmp_path: Path) -> None:
    request = RunRequest(short_recipe(*STALLS), digits, tmp_path / "run")
    log = Log()
    ended = train(request, log)
    assert "ends sooner after 2 epochs without a lower validation error (optim.patience)" in log.notes
    lines = read_metrics(RunDir(request.folder).metrics)
    epochs = [each for each in lines if each.event == "epoch"]
    assert lines[-1].event == "done"
    assert 3 <= len(epochs) < 12
    assert epochs_without_gain(lines) == 2
    assert epochs_without_gain(epochs[:-1]) == 1
    assert ended.ended_after == len(epochs)
    assert planned_epochs(lines) == 12
    # Validation pictures chose best.pt among all epochs that were planned, and also where the run ended.
    for name in ("best.pt", "last.pt"):
        assert count_candidates(load_checkpoint(request.folder / name)) == 12
    again = train(RunRequest(request.recipe, digits, request.folder, resume=True), Log())
    assert (again.trained, again.ended_after, again.steps) == (0, len(epochs), ended.steps)


def test_a_killed_run_and_one_in_lock_step_are_the_run_that_was_left_alone(
    digits: Split, tmp_path: Path
) -> None:
    keys = short_recipe(*STALLS, *FINE_TUNING, "runtime.checkpoint_every_steps=5")
    alone = RunRequest(keys, digits, tmp_path / "alone")
    ended = train(alone, Log())
    assert ended.ended_after is not None
    killed = RunRequest(keys, digits, tmp_path / "killed")
    assert_goes_on(killed, "checkpoint", 30, ended.run)  # in the third epoch of 12 steps each


def test_two_workers_fine_tune_and_end_as_one_does(digits: Split, tmp_path: Path) -> None:
    """With frozen statistics of batches only the order of sums differs."""
    one = RunRequest(short_recipe(*STALLS, *FINE_TUNING), digits, tmp_path / "one")
    ended = train(one, Log())
    words = ("train-ref", "--run-root", digits.run_root, "--seed", "0", "--name", "two")
    device = ("--set", "runtime.device=cpu", "--set", "runtime.threads=1")
    keys = [word for key in (*STALLS, *FINE_TUNING) for word in ("--set", key)]
    said = [each.communicate(timeout=300) for each in workers(2, *words, *device, *keys)]
    assert f"ended after epoch {ended.ended_after}:" in "".join(error for _, error in said), said
    alone, two = (load_checkpoint(folder / "last.pt") for folder in (one.folder, digits.run_root / "two"))
    assert alone.meta.global_step == two.meta.global_step == ended.steps
    for key, value in alone.model.items():
        assert value.allclose(two.model[key], rtol=1e-4, atol=1e-6), key


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["optim.patience=2"], "optim.patience: ends a run early, and a cosine spans its whole length"),
        (
            ["optim.patience=2", "optim.schedule=constant", "method.k_schedule=linear-to-zero"],
            "optim.patience: .*method.k_schedule moves k",
        ),
        (
            ["optim.patience=2", "optim.schedule=constant", "method.max_nfr=2"],
            "optim.patience: .*method.max_nfr moves k",
        ),
        (["optim.min_lr=0.001", "optim.schedule=step"], "optim.min_lr: is the end of a cosine"),
        (["optim.min_lr=0.5"], "optim.min_lr: must be at most the rate at its height, 0.1, got 0.5"),
        (["model.train=head", "model.freeze=[stem]"], "model.freeze: with model.train head"),
        (["model.train=head", "optim.layer_decay=0.5"], "optim.layer_decay: with model.train head"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(keys: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_recipe("digits", (*keys,), {})


def test_patience_needs_a_validation_part(tmp_path: Path) -> None:
    split = make_split("digits", run_root=tmp_path, val_fraction=0.0)
    request = RunRequest(short_recipe(*STALLS), split, tmp_path / "run")
    with pytest.raises(
        UsageError, match=r"optim.patience 2: looks at the validation part, and this split has none"
    ):
        train(request, Log())
