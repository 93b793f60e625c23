"""The moves of k that keep a budget of flips: by hand, on curves that are made up, and in runs that are killed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import MetricsLine, append_metrics, read_metrics
from mptctl.models.records import BiasEpoch, BiasPath
from mptctl.models.run_folder import RunDir
from mptctl.recipe import MethodRecipe
from mptctl.recipe.validation import validate_method
from mptctl.training.bias_control import LARGEST_K, BiasControl, plan_bias_control, predict_decline
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import Log, assert_goes_on, digits_with_teachers, short_recipe


def path_of(k: float, flips: list[int], left: tuple[float, ...]) -> BiasPath:
    return BiasPath(left=left, epochs=tuple(BiasEpoch(k=k, flips=count) for count in flips))


def test_the_moves_of_a_run_of_eight_epochs_by_hand() -> None:
    control = BiasControl(first=1.2, most_flips=10, epochs=8)
    path = BiasPath(left=(0.5,) * 8)
    # Until half of the epochs are done, k stays whatever the flips are.
    for flips in (90, 70, 50):
        assert control.next_k(path) == 1.2
        path = control.extend(path, flips)
    path = control.extend(path, 40)
    # 40 flips, of which half are left at the end: 20 are twice as many as 10, and flips fall by e^-0.8 for each 1 of k.
    assert control.next_k(path) == pytest.approx(1.2 + math.log(2) / 0.8)
    path = control.extend(path, 20)
    # As many as there may be at the end.
    assert control.next_k(path) == pytest.approx(1.2 + math.log(2) / 0.8)
    assert control.fixed_from == 6
    path = control.extend(path, 90)
    before = control.next_k(path)
    for flips in (90, 90):
        path = control.extend(path, flips)
    assert [epoch.k for epoch in path.epochs[6:]] == [before, before]


def test_a_move_is_as_long_as_the_moves_before_showed_it_must_be() -> None:
    control = BiasControl(first=1.0, most_flips=10, epochs=20)
    path = path_of(1.0, [40] * 10, (1.0,) * 20)
    path = path.model_copy(update={"epochs": (*path.epochs, BiasEpoch(k=2.0, flips=20))})
    # The one move halved the flips: log 2, which with the 0.8 before it has the median of their mean.
    assert control.next_k(path) == pytest.approx(2.0 + math.log(2) / ((math.log(2) + 0.8) / 2))


@given(
    steepness=st.floats(0.3, 1.4),
    most=st.integers(5, 200),
    first=st.floats(0.0, 4.0),
    falls=st.floats(1.0, 4.0),
    epochs=st.integers(40, 120),
)
def test_k_converges_on_a_monotone_curve(
    steepness: float, most: int, first: float, falls: float, epochs: int
) -> None:
    # Flips fall with k and, as the end comes nearer, by themselves, as the reference's errors did.
    left = tuple(falls ** ((epoch + 1) / epochs - 1) for epoch in range(epochs))
    control = BiasControl(first, most, epochs)
    path = BiasPath(left=left)
    at_end = 1000.0
    for epoch in range(epochs):
        at_end = 1000 * math.exp(-steepness * control.next_k(path))
        path = control.extend(path, round(at_end / left[epoch]))
    assert all(0 <= epoch.k <= LARGEST_K for epoch in path.epochs)
    reachable = min(1000.0, max(float(most), 1000 * math.exp(-steepness * LARGEST_K)))
    assert at_end == pytest.approx(reachable, rel=0.1, abs=1)


def test_what_the_end_leaves_is_read_off_the_references_log(tmp_path: Path) -> None:
    for epoch, errors in enumerate((80, 40, 10, 20), start=1):
        append_metrics(
            tmp_path / "metrics.jsonl",
            MetricsLine(event="epoch", epoch=epoch, step=epoch, val_errors_old=errors, val_samples_old=100),
        )
    path, notes = predict_decline([tmp_path / "best.pt"], 8)
    # Two epochs of ours to one of the reference's; more errors at the end than before it are no decline.
    assert path.left == (0.25, 0.25, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0)
    assert notes == []
    path, notes = predict_decline([tmp_path / "elsewhere" / "best.pt"], 4)
    assert path.left == (1.0,) * 4
    assert "no log of the reference's epochs" in notes[0]


def budget(**settings: object) -> MethodRecipe:
    return validate_method({"name": "mpt-kl", "max_nfr": 5.0, **settings})


@pytest.mark.parametrize(
    ("settings", "planned"),
    [
        # Of 100, with 1.25 % beyond each of two epochs: 0 flips have the bound 1 - 0.0125^(1/100) = 4.29 %, and
        # 1 flip 6.21 %.
        ({}, (0, 4.0)),
        ({"max_nfr": 6.3, "k": 1.0}, (1, 1.0)),
        ({"k": 8.0}, (0, 8.0)),
        ({"max_nfr": None, "k": 12.0}, None),
        ({"name": "pct-kl"}, None),
    ],
)
def test_how_many_flips_may_be_shown_and_with_which_k_a_run_begins(
    settings: dict[str, object], planned: tuple[int, float] | None
) -> None:
    control = plan_bias_control(budget(**settings), 100, 8, has_old_model=True)
    assert (control and (control.most_flips, control.first)) == planned


@pytest.mark.parametrize(
    ("settings", "samples", "epochs", "has_old_model", "message"),
    [
        ({}, 100, 8, False, "--max-nfr 5: .*name it with --old"),
        ({}, 0, 8, True, "--max-nfr 5: .*--val-fraction"),
        ({}, 100, 3, True, "--max-nfr 5: .*set optim.epochs to at least 4"),
        ({}, 50, 8, True, "--max-nfr 5: .*50 validation pictures of old classes cannot show it"),
        ({"k": 8.5}, 100, 8, True, r"--max-nfr 5: .*got 8\.5; lower method\.k"),
        ({"k_schedule": "linear-to-zero"}, 100, 8, True, r"k itself; set method\.k_schedule to constant"),
    ],
)
def test_a_budget_that_cannot_be_followed(
    settings: dict[str, object], samples: int, epochs: int, has_old_model: bool, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_bias_control(budget(**settings), samples, epochs, has_old_model=has_old_model)


@pytest.fixture(scope="module")
def teachers(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split of the digits with teachers beside it."""
    return digits_with_teachers(tmp_path_factory.mktemp("budget"), val_fraction=0.3, epochs=4)


def update(split: Split, name: str) -> RunRequest:
    recipe = short_recipe(
        "optim.epochs=8", "runtime.checkpoint_every_steps=2", method="mpt-kl",
        **{"method.max_nfr": 5.0, "method.k": 1.0},
    )  # fmt: skip
    old, ref = (split.run_root / teacher / "best.pt" for teacher in ("old", "ref"))
    return RunRequest(recipe, split, split.run_root / name, old=old, refs=(ref,))


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_with_the_same_k(teachers: Split) -> None:
    whole = train(update(teachers, "whole"), Log())
    steps = whole.steps // 8
    # In the epochs in which k moves: between two of them, and in the middle of one.
    for event, step in (("epoch", 5 * steps), ("checkpoint", 5 * steps + 3)):
        resumed = assert_goes_on(update(teachers, "killed"), event, step, whole.run)
        assert path_in(resumed.run) == path_in(whole.run)
        for path in sorted(resumed.run.path.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()

    lines = [line for line in read_metrics(whole.run.metrics) if line.event == "epoch"]
    assert [line.k for line in lines] == [epoch.k for epoch in path_in(whole.run).epochs]
    assert [line.val_flips for line in lines] == [epoch.flips for epoch in path_in(whole.run).epochs]
    assert {line.k for line in lines[:4]} == {1.0}
    assert len({line.k for line in lines[3:7]}) > 1
    assert len({line.k for line in lines[6:]}) == 1
    assert whole.best is not None
    assert whole.best.epoch > 6


def path_in(run: RunDir) -> BiasPath:
    path = load_checkpoint(run.last).meta.bias_path
    assert path is not None
    return path
