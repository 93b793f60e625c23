"""Several workers over gloo give the run of one; two of them are once started as a user starts them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from mptctl.data.split import Split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.training import distributed
from tests.common import CommandLine, digits_with_teachers, environment
from tests.forked import Forked, mptctl_process, places, process_of, program, workers
from tests.own.conftest import METHOD

FLAGS = ["--set", "runtime.device=cpu", "--set", "runtime.threads=1", "--seed", "0"]


def launch(count: int, *words: str) -> None:
    """Run a command line as so many workers under torch's launcher, as `torchrun --standalone` sets it.

    Its workers are forked from this process, where that program would start an interpreter for each.
    """
    os.environ.update(environment())
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=count, run_id="one", rdzv_backend="c10d",
        rdzv_endpoint="localhost:0", max_restarts=0, start_method="fork",
    )  # fmt: skip
    ended = elastic_launch(config, program)("mptctl", list(words))
    assert ended == dict.fromkeys(range(count), 0), ended


def finished(processes: list[Forked]) -> list[str]:
    """The output of each worker, once all have ended well."""
    said = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return [out for out, _ in said]


@pytest.mark.parametrize(("pieces", "more"), [(3, ()), (2, ("data.cutmix=1", "data.sampling=sqrt"))])
def test_two_workers_give_the_run_of_one_but_for_batch_statistics(
    digits: Split, pieces: int, more: tuple[str, ...]
) -> None:
    """With a frozen body there are no batch statistics, and only the order of sums differs."""
    root = digits.run_root
    keys = [word for key in ("model.train=head", "optim.epochs=2", *more) for word in ("--set", key)]
    words = ("train-ref", "--run-root", root, *FLAGS, "--name", "two", *keys)
    printed = finished(workers(2, *words, "--set", f"optim.accumulate={pieces}"))
    assert "".join(printed).count("best.pt") == 1
    assert mptctl_process("train-ref", "--run-root", root, "--name", "one", *FLAGS, *keys).returncode == 0
    one, two = (load_checkpoint(root / name / "last.pt") for name in ("one", "two"))
    assert one.meta.global_step == two.meta.global_step
    for key, value in one.model.items():
        torch.testing.assert_close(two.model[key], value, rtol=1e-4, atol=1e-5)
    lines = [read_metrics(RunDir(root / name).metrics) for name in ("one", "two")]
    errors = [[(line.step, line.val_error) for line in each if line.event == "epoch"] for each in lines]
    assert errors[0] == errors[1]


# A global batch that neither 2 nor 4 divide, and one step an epoch, so that each line of metrics.jsonl is of one step.
# Such a low rate because single precision rounds: a ReLU whose input another order of sums puts on the other side of 0
# changes the gradient of this network in the third digit. In double precision there is a test at the rate of 0.1.
STEPS = 8
UPDATE = (
    "train-mpt", *FLAGS, "--set", "method.init=old", "--set", "optim.batch_size=101", "--set", f"optim.epochs={STEPS}",
    "--set", "optim.lr=0.0005", "--set", "model.freeze=[norm-statistics]",
)  # fmt: skip


@pytest.fixture(scope="module")
def updated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with an old model, a reference, and an update by one worker, of 179 pictures."""
    root = tmp_path_factory.mktemp("workers")
    digits_with_teachers(root, val_fraction=0.8, epochs=20, seed=7)
    assert mptctl_process(*UPDATE, "--run-root", root, "--name", "one").returncode == 0
    return root


def counts(mptctl: CommandLine, root: Path, name: str) -> dict[str, Any]:
    """The counts of `evaluate` for a run beside the old model."""
    done = mptctl.must("evaluate", "old", name, "--run-root", root, "--device", "cpu", "--json")
    found: dict[str, Any] = json.loads(done.stdout)["counts"]
    return found


@pytest.mark.parametrize("count", [2, 4])
def test_with_frozen_batch_statistics_several_workers_give_the_run_of_one(
    updated: Path, mptctl: CommandLine, count: int
) -> None:
    name = f"by-{count}"
    words = (*UPDATE, "--run-root", str(updated), "--name", name)
    if count == 2:
        launcher = process_of(launch, count, *words)
        launcher.join()
        assert launcher.exitcode == 0
    else:
        finished(workers(count, *words))
    one, several = (
        [line for line in read_metrics(RunDir(updated / run).metrics) if line.event in ("step", "epoch")]
        for run in ("one", name)
    )
    assert len(one) == len(several) == 2 * STEPS
    for mine, theirs in zip(one, several, strict=True):
        assert mine.step == theirs.step
        if mine.event == "epoch":
            assert mine == theirs
            continue
        assert mine.terms is not None
        assert theirs.terms is not None
        assert theirs.terms["loss"] == pytest.approx(mine.terms["loss"], rel=1e-6)
        assert theirs.terms == pytest.approx(mine.terms, rel=1e-6, abs=1e-6 * mine.terms["loss"])
        assert theirs.train_error == mine.train_error  # as many of the same pictures right
    for file in ("last.pt", "best.pt"):
        alone, together = (load_checkpoint(updated / run / file) for run in ("one", name))
        assert list(together.model) == list(alone.model)
        for key, value in alone.model.items():
            torch.testing.assert_close(together.model[key], value, rtol=1e-5, atol=1e-6)
    old = load_checkpoint(updated / "old" / "best.pt")
    assert not torch.equal(old.model["fc.weight"], together.model["fc.weight"][: len(old.model["fc.weight"])])
    assert counts(mptctl, updated, name) == counts(mptctl, updated, "one")


def test_a_method_of_ones_own_is_known_to_every_worker(updated: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "muscle.py"
    plugin.write_text(METHOD)
    words = ("train-baseline", "muscle", "--plugin", str(plugin), *UPDATE[1:], "--run-root", str(updated))
    finished(workers(2, *words, "--name", "own-by-2"))
    assert mptctl_process(*words, "--name", "own-by-1").returncode == 0
    one, two = (load_checkpoint(updated / name / "last.pt") for name in ("own-by-1", "own-by-2"))
    assert one.meta.recipe.method.name == two.meta.recipe.method.name == "muscle"
    for key, value in one.model.items():
        torch.testing.assert_close(two.model[key], value, rtol=1e-5, atol=1e-6)


def test_batch_statistics_of_all_workers_are_refused_on_cpus(digits: Split) -> None:
    words = ("train-ref", "--run-root", digits.run_root, *FLAGS, "--set", "runtime.sync_batchnorm=true")
    for process in workers(2, *words):
        _, said = process.communicate(timeout=300)
        assert process.returncode == 2
        assert "runtime.sync_batchnorm: is for GPUs; on CPUs leave it out" in said


def train_and_leave(variables: dict[str, str]) -> None:
    """Be a worker that takes a step, and end with 7 once the group has ended and nothing knows it."""
    os.environ.update(variables)
    cpu = torch.device("cpu")
    with distributed.workers(cpu) as group:
        model = torch.nn.Linear(3, 2)
        wrapped = group.wrap(model, cpu)
        wrapped(torch.ones(4, 3)).sum().backward()
        group.wait()
    assert wrapped.reducer is wrapped.logger is wrapped.process_group is None
    assert model.weight.grad is not None
    os._exit(7)  # how the interpreter ends is torch's


def test_nothing_that_was_trained_knows_the_group_once_it_has_ended() -> None:
    """A gloo group that is freed with Python's lock held may wait for ever; one that is never freed may abort."""
    both_end_well(train_and_leave)


def both_end_well(worker: Callable[[dict[str, str]], None]) -> None:
    """Both processes of a group come to their end, which is an exit code of 7."""
    processes = [process_of(worker, variables) for variables in places(2)]
    for process in processes:
        process.join(timeout=120)
    assert [process.exitcode for process in processes] == [7, 7]


def validate_for_long(variables: dict[str, str]) -> None:
    """Be a worker whose main one validates for longer than the others wait for a step; end with 7."""
    os.environ.update(variables)
    distributed.TIMEOUT = timedelta(seconds=1)
    with distributed.workers(torch.device("cpu")) as group:
        if group.is_main:
            time.sleep(3)
        group.wait(long=True)
        assert group.any(group.is_main, torch.device("cpu"))
    os._exit(7)


def test_a_validation_may_take_longer_than_workers_wait_for_a_step() -> None:
    both_end_well(validate_for_long)
