"""Runs in lock-step: each as it would be alone, with every batch loaded once and every teacher asked once."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from pathlib import Path

import pytest
from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.part import Batch
from mptctl.data.split import Split
from mptctl.errors import CheckpointError, NonFiniteError, Stopped, UsageError
from mptctl.models.metrics_log import MetricsLine, read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.names import Role
from mptctl.recipe import Recipe
from mptctl.teachers.ensemble import Teachers
from mptctl.training.lockstep import Ended, refuse_other_batches, train_in_lockstep
from mptctl.training.observer import FitResult
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import Log, assert_same_run, digits_with_teachers, short_recipe, train_until_killed


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Split:
    return digits_with_teachers(tmp_path_factory.mktemp("lockstep") / "runs", val_fraction=0.1, epochs=1)


def request_of(taught: Split, folder: Path, recipe: Recipe, **keys: object) -> RunRequest:
    root = taught.run_root
    refs = (root / "ref" / "best.pt",) if recipe.method.name.startswith("mpt") else ()
    return RunRequest(recipe, taught, folder, root / "old" / "best.pt", refs, **keys)  # type: ignore[arg-type]


def recipes(*overrides: str) -> list[Recipe]:
    """Runs that differ in all that may differ: k, distance, teachers, start, parts of a batch, length."""
    return [
        short_recipe(*overrides, method="mpt-kl", **{"method.k": 0.5}),
        short_recipe(*overrides, method="mpt-kl", **{"method.k": 2.0}),
        short_recipe(*overrides, "optim.accumulate=3", method="mpt-lm"),
        short_recipe(*overrides, "optim.epochs=1", method="pct-kl"),
        short_recipe(*overrides, "method.init=old", method="no-treatment"),
    ]


def in_lockstep(requests: list[RunRequest]) -> list[Ended]:
    return train_in_lockstep(requests, [Log() for _ in requests])


@pytest.mark.parametrize("overrides", [(), ("runtime.cache_teachers=true",)])
def test_each_run_is_what_it_would_be_alone(
    taught: Split, tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    alone, together = [], []
    for number, recipe in enumerate(recipes(*overrides)):
        folder = tmp_path / f"alone-{number}"
        train(request_of(taught, folder, recipe, cache_dir=tmp_path / "one"), Log())
        alone.append(RunDir(folder))
        together.append(
            request_of(taught, tmp_path / f"lockstep-{number}", recipe, cache_dir=tmp_path / "two")
        )
    ended = in_lockstep(together)
    assert [isinstance(one, FitResult) for one in ended] == [True] * 5
    for run, request in zip(alone, together, strict=True):
        assert_same_run(RunDir(request.folder), run)
    assert len({load.read_bytes() for load in (RunDir(r.folder).metrics for r in together)}) == 5


def test_a_batch_is_loaded_once_and_a_teacher_is_asked_once(
    taught: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int, Role]] = []
    passes: list[bool] = []
    real, epoch = Teachers.logits, Loader.epoch

    def logits(self: Teachers, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        asked.extend((batch.epoch, batch.position, role) for role in roles)
        return real(self, batch, roles)

    def recorded(self: Loader, number: int, start_step: int = 0):  # type: ignore[no-untyped-def]
        passes.append(self.plan.train)
        return epoch(self, number, start_step)

    monkeypatch.setattr(Teachers, "logits", logits)
    monkeypatch.setattr(Loader, "epoch", recorded)
    chosen = [short_recipe(method="mpt-kl", **{"method.k": k}) for k in (0.0, 1.0, 2.0)]
    in_lockstep([request_of(taught, tmp_path / str(i), recipe) for i, recipe in enumerate(chosen)])
    assert passes.count(True) == 2  # one an epoch
    assert passes.count(False) == 6  # each run is validated after each epoch
    training = [question for question in asked if question[2] is Role.REF]
    assert len(training) == len(set(training)) == 2 * 12
    # The old model answers the training batches once, and the two of the validation part once.
    assert len(asked) - len(training) == 2 * 12 + 2


def test_runs_that_were_interrupted_at_different_steps_come_together(taught: Split, tmp_path: Path) -> None:
    saving = ("runtime.checkpoint_every_steps=2",)
    chosen = [short_recipe(*saving, method="mpt-kl", **{"method.k": k}) for k in (0.0, 1.0, 2.0)]
    for number, recipe in enumerate(chosen):
        train(request_of(taught, tmp_path / f"alone-{number}", recipe), Log())
    train_until_killed(request_of(taught, tmp_path / "0", chosen[0]), "checkpoint", 14)
    train_until_killed(request_of(taught, tmp_path / "1", chosen[1]), "checkpoint", 6)
    ended = in_lockstep(
        [
            request_of(taught, tmp_path / str(number), recipe, resume=number < 2)
            for number, recipe in enumerate(chosen)
        ]
    )
    assert [one.trained for one in ended if isinstance(one, FitResult)] == [10, 18, 24]
    for number in range(3):
        assert_same_run(RunDir(tmp_path / str(number)), RunDir(tmp_path / f"alone-{number}"))


def test_a_run_that_was_killed_after_its_last_checkpoint_is_not_validated_again(
    taught: Split, tmp_path: Path
) -> None:
    chosen = [short_recipe(method="mpt-kl", **{"method.k": k}) for k in (0.0, 1.0)]
    for name in ("0", "alone"):
        train(request_of(taught, tmp_path / name, chosen[0]), Log())
    metrics = RunDir(tmp_path / "0").metrics
    *kept, done = metrics.read_text().splitlines(keepends=True)
    assert '"done"' in done
    metrics.write_text("".join(kept))
    requests = [
        request_of(taught, tmp_path / "0", chosen[0], resume=True),
        request_of(taught, tmp_path / "1", chosen[1]),
    ]
    ended = in_lockstep(requests)
    assert [one.trained for one in ended if isinstance(one, FitResult)] == [0, 24]
    events = [line.event for line in read_metrics(metrics) if line.event != "step"]
    assert events == ["epoch", "checkpoint", "epoch", "checkpoint", "done"]
    assert_same_run(RunDir(tmp_path / "0"), RunDir(tmp_path / "alone"))


def test_a_run_that_fails_leaves_the_others_alone(taught: Split, tmp_path: Path) -> None:
    good = short_recipe(method="mpt-kl")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("somebody's")
    requests = [
        request_of(taught, tmp_path / "taken", good),
        request_of(taught, tmp_path / "wild", short_recipe("optim.lr=1e30", method="mpt-kl")),
        request_of(taught, tmp_path / "good", good),
    ]
    taken, wild, fine = in_lockstep(requests)
    assert isinstance(taken, UsageError)
    assert isinstance(wild, NonFiniteError)
    assert isinstance(fine, FitResult)
    train(request_of(taught, tmp_path / "alone", good), Log())
    assert_same_run(RunDir(tmp_path / "good"), RunDir(tmp_path / "alone"))


def test_a_run_that_cannot_begin_leaves_the_kept_answers_of_the_others_alone(
    taught: Split, tmp_path: Path
) -> None:
    keeping = ("runtime.cache_teachers=true", "optim.max_steps=3")
    other = short_recipe(*keeping, "optim.lr=0.2", method="mpt-kl")
    train(request_of(taught, tmp_path / "other", other, cache_dir=tmp_path / "cache"), Log())
    requests = [
        request_of(
            taught, tmp_path / "good", short_recipe(*keeping, method="mpt-kl"), cache_dir=tmp_path / "cache"
        ),
        request_of(
            taught,
            tmp_path / "other",
            short_recipe(*keeping, method="pct-kl"),
            cache_dir=tmp_path / "cache",
            resume=True,
        ),
    ]
    fine, refused = in_lockstep(requests)
    assert isinstance(fine, FitResult)
    assert isinstance(refused, CheckpointError)


def test_a_signal_saves_all_of_them(taught: Split, tmp_path: Path) -> None:
    class Interrupts(Log):
        def line(self, line: MetricsLine) -> None:
            if (line.event, line.step) == ("checkpoint", 12):
                os.kill(os.getpid(), signal.SIGTERM)

    chosen = [short_recipe(method="mpt-kl", **{"method.k": k}) for k in (0.0, 1.0)]
    requests = [request_of(taught, tmp_path / str(i), recipe) for i, recipe in enumerate(chosen)]
    ended = train_in_lockstep(requests, [Interrupts(), Log()])
    assert [isinstance(one, Stopped) and one.resumable for one in ended] == [True, True]
    assert [one.signum for one in ended if isinstance(one, Stopped)] == [signal.SIGTERM] * 2
    again = [request_of(taught, tmp_path / str(i), recipe, resume=True) for i, recipe in enumerate(chosen)]
    in_lockstep(again)
    for number, recipe in enumerate(chosen):
        train(request_of(taught, tmp_path / f"alone-{number}", recipe), Log())
        assert_same_run(RunDir(tmp_path / str(number)), RunDir(tmp_path / f"alone-{number}"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optim.batch_size=32", r"optim\.batch_size \(64 and 32\)"),
        ("runtime.seed=3", r"runtime\.seed \(0 and 3\)"),
        ("data.padding=2", r"data\.padding \(1 and 2\)"),
    ],
)
def test_runs_on_other_batches_are_refused(
    taught: Split, tmp_path: Path, override: str, message: str
) -> None:
    one, other = short_recipe(method="mpt-kl"), short_recipe(override, method="mpt-kl")
    requests = [request_of(taught, tmp_path / "one", one), request_of(taught, tmp_path / "other", other)]
    with pytest.raises(UsageError, match=f"other: cannot go in lock-step with .*one, .*{message}"):
        refuse_other_batches(requests)


def test_runs_of_another_old_model_or_split_are_refused(taught: Split, tmp_path: Path) -> None:
    recipe = short_recipe()
    one = request_of(taught, tmp_path / "one", recipe)
    other = RunRequest(recipe, taught, tmp_path / "other")
    with pytest.raises(UsageError, match="these differ: old model"):
        refuse_other_batches([one, other])
    half = RunRequest(recipe, taught, tmp_path / "half", only_old_classes=True)
    with pytest.raises(UsageError, match="these differ: classes"):
        refuse_other_batches([other, half])
