"""Going on: bit-equal after SIGKILL at any moment, after signals, and past damaged checkpoints."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split, make_split
from mptctl.errors import CheckpointError, UsageError
from mptctl.models.checkpoint import load_checkpoint
from mptctl.report.media.training_progress import result_lines
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import Log, Train, assert_goes_on, assert_same_run, short_recipe
from tests.forked import mptctl_process

# Long enough to be killed in the middle, and saving so often that kills hit the saving too.
LONG = ("optim.epochs=8", "runtime.checkpoint_every_steps=2")


@pytest.mark.parametrize("ends", [24, 18])
def test_validation_is_neither_left_out_nor_done_twice(ends: int, run: Train, digits: Split) -> None:
    # Saves at the very step at which an epoch of 12 steps, and the run, end: before validation, and after it.
    recipe = short_recipe("runtime.checkpoint_every_steps=2", f"optim.max_steps={ends}")
    whole, _ = run(recipe, "whole")
    for event, step in itertools.product(("checkpoint", "epoch"), (12, ends)):
        killed = f"killed after the {event} of step {step}"
        request = RunRequest(recipe, digits, digits.run_root / killed)
        assert assert_goes_on(request, event, step, whole.run).validation == whole.validation, killed
        again, log = run(recipe, killed, resume=True)
        assert again.validation == whole.validation, killed
        assert not any(line.event == "epoch" for line in log.lines), killed


def test_the_best_epoch_of_before_the_kill_stays_the_best(run: Train, digits: Split) -> None:
    # A rate that rises to far too high a one spoils the weights that the run begins with.
    good, _ = run(short_recipe("optim.epochs=6"), "good")
    keys = ("optim.epochs=3", "optim.lr=1", "optim.warmup_epochs=3", "optim.schedule=constant")
    recipe = short_recipe(*keys, f"model.pretrained={good.run.best}")
    whole, _ = run(recipe, "whole")
    assert whole.best is not None
    assert whole.best.epoch == 1
    killed = RunRequest(recipe, digits, digits.run_root / "killed")
    assert assert_goes_on(killed, "checkpoint", 12, whole.run).trained == 24


def test_what_is_drawn_at_random_in_a_step_goes_on_where_it_was(run: Train, digits: Split) -> None:
    keys = ("model.arch=resnet18", "model.dropblock=0.2", "model.dropblock_size=1", "optim.batch_size=32")
    recipe = short_recipe(*keys, "runtime.checkpoint_every_steps=2", "optim.max_steps=4")
    whole, _ = run(recipe, "whole")
    killed = RunRequest(recipe, digits, digits.run_root / "killed")
    assert assert_goes_on(killed, "checkpoint", 2, whole.run).trained == 2


def test_a_dry_run_with_resume_writes_nothing(run: Train, digits: Split) -> None:
    first, _ = run(short_recipe(), "ref")
    first.run.last.write_bytes(b"")
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in digits.run_root.rglob("*")}
    words = ("--run-root", digits.run_root, "--seed", "0", "--resume", "--dry-run")
    keys = (f"--set={key}" for key in ("optim.epochs=2", "runtime.device=cpu", "runtime.threads=1"))
    out = mptctl_process("train-ref", *words, *keys)
    assert out.returncode == 0, out.stderr
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in digits.run_root.rglob("*")} == before


def test_a_run_with_another_teacher_is_another_run(run: Train) -> None:
    """An old model that was trained anew lies where the first lay, and answers otherwise."""
    old = run(short_recipe(), "old", only_old_classes=True)[0].run.best
    recipe = short_recipe(method="pct-naive")
    run(recipe, "run", old=old)
    run(short_recipe("runtime.seed=3"), "old", only_old_classes=True, overwrite=True)
    with pytest.raises(CheckpointError, match="teacher old: "):
        run(recipe, "run", old=old, resume=True)
    with pytest.raises(CheckpointError, match="class_names"):
        run(short_recipe("runtime.seed=3"), "old", resume=True)


LONGER = {"optim.schedule": "step", "optim.milestones": [1], "optim.epochs": 2}


def test_a_run_made_longer_is_the_run_that_was_long_from_the_start(run: Train) -> None:
    whole, _ = run(short_recipe(**(LONGER | {"optim.epochs": 4})), "whole")
    run(short_recipe(**LONGER), "grown")
    grown, _ = run(short_recipe(**(LONGER | {"optim.epochs": 4})), "grown", resume=True)
    assert (whole.steps, grown.steps, grown.trained) == (48, 48, 24)
    assert_same_run(whole.run, grown.run)
    with pytest.raises(CheckpointError, match=r"optim\.epochs: 4 -> 1"):
        run(short_recipe(**(LONGER | {"optim.epochs": 1})), "grown", resume=True)


@pytest.mark.parametrize(
    ("keys", "spans"),
    [
        (
            {"optim.schedule": "cosine", "optim.milestones": None},
            r"optim\.schedule cosine spans the whole run",
        ),
        ({"method.k_schedule": "linear-to-zero"}, r"method\.k_schedule linear-to-zero spans the whole run"),
    ],
)
def test_a_run_planned_as_a_whole_is_not_made_longer_but_its_weights_begin_another(
    keys: dict[str, object], spans: str, run: Train
) -> None:
    before = LONGER | keys
    done, _ = run(short_recipe(**before), "run")
    longer = short_recipe(**(before | {"optim.epochs": 4}))
    with pytest.raises(UsageError, match=spans) as refused:
        run(longer, "run", resume=True)
    key, _, value = str(refused.value).partition("--set ")[2].partition(" ")[0].partition("=")
    assert (key, value) == ("model.pretrained", str(done.run.best))
    another, _ = run(short_recipe(**(before | {key: value, "optim.epochs": 0})), "another")
    weights = [load_checkpoint(path).model for path in (done.run.best, another.run.best)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_what_is_finished_is_not_trained_again(run: Train) -> None:
    first, _ = run(short_recipe(), "run")
    again, _ = run(short_recipe("runtime.checkpoint_every_steps=5"), "run", resume=True)  # changes no number
    assert (first.trained, again.trained, again.steps) == (24, 0, 24)
    assert first.best == again.best
    assert first.best is not None
    assert first.best.val_error == first.best_error
    assert result_lines(again)[0] == "run: already finished: 24 steps; nothing was left to train"


def test_pictures_whose_times_changed_since_the_run_began_are_warned_of(
    own_folder: Path, tmp_path: Path
) -> None:
    def train_on(*, touch: bool, resume: bool) -> list[str]:
        if touch:
            os.utime(own_folder / "train" / "class1" / "004.jpg", ns=(0, 0))
        split = make_split(
            "imagefolder", run_root=tmp_path, data_root=own_folder, val_fraction=0.0, overwrite=True
        )
        log, recipe = Log(), short_recipe("optim.batch_size=8")
        train(RunRequest(recipe, split, tmp_path / "run", resume=resume), log)
        return [note for note in log.notes if "times of picture files differ" in note]

    assert train_on(touch=False, resume=False) == []
    assert train_on(touch=False, resume=True) == []
    (warning,) = train_on(touch=True, resume=True)
    assert warning.startswith("warning: ")
