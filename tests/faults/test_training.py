"""Rows 7, 8, 11 and 90: training that is killed, stopped, diverges, or is replayed."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split
from mptctl.errors import NonFiniteError
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.training.graphed import WARM_STEPS, GraphedStep
from tests.common import CPU, Train, assert_same_run, short_recipe
from tests.forked import Forked
from tests.graphed_steps import check_eager_bits
from tests.tape import TapeRecorder

# Long enough to be killed in the middle, and saving so often that kills hit the saving too.
LONG = ("optim.epochs=8", "runtime.checkpoint_every_steps=2")
FLAGS = [word for key in ("runtime.device=cpu", "runtime.threads=1", *LONG) for word in ("--set", key)]


@contextmanager
def training(root: Path, *more: str) -> Iterator[Forked]:
    """A run in a process of its own, which does not outlive the test."""
    process = Forked("train-ref", "--run-root", root, "--name", "killed", "--seed", "0", *FLAGS, *more)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_step(folder: RunDir, step: int, process: Forked) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if any(line.event == "checkpoint" and line.step >= step for line in read_metrics(folder.metrics)):
            return
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()[1]
    pytest.fail("the run did not come so far")


def test_row_07_a_run_killed_again_and_again_ends_bit_equal(run: Train, digits: Split) -> None:
    whole, _ = run(short_recipe("optim.epochs=8"), "whole")
    folder = RunDir(digits.run_root / "killed")
    chance = random.Random(0)
    for kill, step in enumerate((5, 30)):
        with training(digits.run_root, *(["--resume"] if kill else [])) as process:
            wait_for_step(folder, step, process)
            time.sleep(chance.random() * 0.2)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        assert process.returncode == -signal.SIGKILL
        load_checkpoint(folder.last)
    finished, log = run(short_recipe(*LONG), "killed", resume=True)
    assert any("goes on from last.pt, step" in note for note in log.notes)
    assert finished.steps == whole.steps
    assert_same_run(finished.run, whole.run)


@pytest.mark.parametrize(
    ("signum", "code", "loader"), [(signal.SIGTERM, 143, "threaded"), (signal.SIGINT, 130, "resident")]
)
def test_row_08_a_signal_saves_and_names_the_command_that_goes_on(
    signum: int, code: int, loader: str, run: Train, digits: Split
) -> None:
    folder = RunDir(digits.run_root / "killed")
    # One long epoch, so that what is saved before its end was not saved because it ended.
    keys = (f"data.loader={loader}", "optim.batch_size=4", "optim.epochs=1")
    with training(digits.run_root, *(word for key in keys for word in ("--set", key))) as process:
        wait_for_step(folder, 4, process)
        process.send_signal(signum)
        out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    assert out == ""
    last_line = err.strip().splitlines()[-1]
    saved = re.fullmatch(r"mptctl: .*: saved at step (\d+) of (\d+); .* --resume", last_line)
    assert saved is not None, last_line
    assert int(saved[1]) < int(saved[2])
    assert not (folder.path / "lock").exists()
    # Rare saves are faster and change no number.
    recipe = short_recipe(*LONG, *keys, "runtime.checkpoint_every_steps=100")
    whole, _ = run(recipe, "whole")
    finished, _ = run(recipe, "killed", resume=True)
    assert_same_run(finished.run, whole.run)


def test_row_11_a_diverging_run_stops_at_the_step_and_keeps_the_weights_before_it(
    run: Train, digits: Split
) -> None:
    diverging = ("optim.lr=1e30", "optim.schedule=constant")
    said = r"step \d+: not finite: the (term|gradient of|square of|loss).*learning rate 1e\+30.*nonfinite\.pt"
    with pytest.raises(NonFiniteError, match=said) as end:
        run(short_recipe(*diverging), "bad")
    kept = load_checkpoint(digits.run_root / "bad" / "nonfinite.pt")
    steps = kept.meta.global_step
    assert f"step {steps + 1}: not finite" in str(end.value)
    assert all(torch.isfinite(v.float()).all() for v in kept.model.values())
    ended, _ = run(short_recipe(*diverging, f"optim.max_steps={steps}"), "ended")
    assert steps > 0
    assert all(torch.equal(kept.model[k], v) for k, v in load_checkpoint(ended.run.last).model.items())


def test_row_90_a_replayed_step_takes_each_steps_own_rate_k_and_batch() -> None:
    recipe = short_recipe("optim.batch_size=12", "method.k_schedule=linear-to-zero", method="mpt-kl")
    recorder = TapeRecorder()
    check_eager_bits(recipe, CPU, GraphedStep(recorder, teachers_inside=True))
    # Those that warm up, and the one on a smaller batch, are taken without the recording.
    assert (recorder.recorded, recorder.taken) == (1, WARM_STEPS + 1)
