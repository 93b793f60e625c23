"""Options of a method that are off by default: a gate on distillation, and a bias that moves over the run."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.methods import build_method
from mptctl.training.request import RunRequest
from tests.common import Train, assert_goes_on, short_recipe

OLD, CLASSES = 2, 3


def log_softmax(z: list[float]) -> list[float]:
    total = math.log(sum(math.exp(v) for v in z))
    return [v - total for v in z]


def kl(teacher: list[float], student: list[float], tau: float) -> float:
    p, q = log_softmax([v / tau for v in teacher]), log_softmax([v / tau for v in student])
    return sum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True))


# Of the rows the student gets right the first and the last, whose tie its first column wins.
Z = [[2.0, 0.5, -1.0], [0.3, 1.1, 0.2], [0.0, 1.5, 0.4], [0.7, 0.7, 0.1]]
Y = [0, 0, 2, 0]
Z_OLD = [[1.0, 0.0], [2.0, -1.0], [0.5, 0.2], [0.1, 0.6]]
Z_REF = [[0.2, 0.1, 1.0], [1.0, 0.0, 0.5], [0.0, 0.3, 2.0], [1.4, 0.2, 0.1]]
RIGHT = [True, False, False, True]


def by_hand(name: str, tau: float = 5.0, lam: float = 1.0, k: float = 4.0) -> tuple[float, float, float]:
    """ce, fd_old and fd_ref of MUSCLE's rule: the old model where the student is wrong, the reference elsewhere."""
    bias = k if name.startswith("mpt") else 0.0
    ce = old = ref = 0.0
    for z, y, z_old, z_ref, right in zip(Z, Y, Z_OLD, Z_REF, RIGHT, strict=True):
        ce -= log_softmax([z[0], z[1], z[2] + bias])[y]
        if not right:
            weight = 6.0 if z_old.index(max(z_old)) == y else 1.0
            old += lam * weight * kl(z_old, z[:OLD], tau)
        elif name.startswith("mpt"):
            weight = 6.0 if z_ref.index(max(z_ref)) == y else 1.0
            ref += lam * weight * kl(z_ref, z, tau)
    return ce / len(Y), old / len(Y), ref / len(Y)


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    double = [torch.tensor(values, dtype=torch.float64) for values in (Z, Z_OLD, Z_REF)]
    return double[0], torch.tensor(Y), double[1], double[2]


@pytest.mark.parametrize("name", ["mpt-kl", "pct-kl"])
def test_the_gate_by_hand(name: str) -> None:
    z, y, old, ref = inputs()
    method = build_method(name, num_old=OLD, gate="student-wrong")
    terms, grad = method.value_and_grad(z, y, old, ref)
    ce, fd_old, fd_ref = by_hand(name)
    assert float(terms["ce"]) == pytest.approx(ce, rel=1e-12)
    assert float(terms["fd_old"]) == pytest.approx(fd_old, rel=1e-12)
    assert ("fd_ref" in terms) == (name == "mpt-kl")
    if name == "mpt-kl":
        assert float(terms["fd_ref"]) == pytest.approx(fd_ref, rel=1e-12)
    assert float(terms["loss"]) == pytest.approx(ce + fd_old + fd_ref, rel=1e-12)
    # The gradient by differences of the loss; nothing flows through the gate itself.
    step = 1e-6
    for row in range(len(Y)):
        for column in range(CLASSES):
            if row == 3:  # a tie: the smallest step moves the gate
                continue
            ends = []
            for sign in (1, -1):
                moved = z.clone()
                moved[row, column] += sign * step
                ends.append(float(method(moved, y, old, ref)["loss"]))
            assert float(grad[row, column]) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


def test_ignored_rows_add_nothing_to_a_gated_method() -> None:
    z, y, old, ref = inputs()
    method = build_method("mpt-kl", num_old=OLD, gate="student-wrong")
    whole, _ = method.value_and_grad(z, y, old, ref, normalizer=4.0)
    more = [torch.cat([t, torch.full((1, t.shape[1]), torch.nan, dtype=t.dtype)]) for t in (z, old, ref)]
    padded, grad = method.value_and_grad(
        more[0], torch.cat([y, torch.tensor([-100])]), *more[1:], normalizer=4.0
    )
    assert {k: float(v) for k, v in padded.items()} == {k: float(v) for k, v in whole.items()}
    assert grad[-1].tolist() == [0.0] * CLASSES


def test_a_gate_goes_with_another_criterion() -> None:
    z, y, old, ref = inputs()
    plain = build_method("mpt-kl", num_old=OLD, gate="student-wrong")(z, y, old, ref)
    smooth = build_method(
        "mpt-kl", num_old=OLD, gate="student-wrong", criterion={"name": "ls", "smoothing": 0.1}
    )(z, y, old, ref)
    assert (smooth["fd_old"], smooth["fd_ref"]) == (plain["fd_old"], plain["fd_ref"])
    assert smooth["ce"] != plain["ce"]


@pytest.mark.parametrize(
    ("schedule", "path"),
    [
        ("constant", [3.0] * 5),
        ("linear-to-zero", [3.0, 2.25, 1.5, 0.75, 0.0]),
        ("linear-from-zero", [0.0, 0.75, 1.5, 2.25, 3.0]),
    ],
)
@pytest.mark.parametrize("gate", ["none", "student-wrong"])
def test_k_moves_on_a_line_over_the_epochs(schedule: str, path: list[float], gate: str) -> None:
    method = build_method("mpt-kl", num_old=OLD, k=3.0, k_schedule=schedule, gate=gate)
    assert [method.for_epoch(epoch, 5).settings.k for epoch in range(5)] == path
    z, y, old, ref = inputs()
    for epoch, k in enumerate(path):
        wanted = build_method("mpt-kl", num_old=OLD, k=k, gate=gate)(z, y, old, ref)["loss"]
        assert method.for_epoch(epoch, 5)(z, y, old, ref)["loss"] == wanted
    # A method without a bias has nothing to move, and one without such distillation no gate.
    assert build_method("pct-kl", num_old=OLD, k=3.0, k_schedule=schedule).for_epoch(0, 5).settings.k == 0.0
    for name in ("no-treatment", "elodi", "pct-naive", "mpt-nodistill"):
        assert build_method(name, num_old=OLD, gate=gate) == build_method(name, num_old=OLD)


def test_unknown_options_name_the_nearest() -> None:
    for key, value, meant in (
        ("gate", "student-wong", "student-wrong"),
        ("k_schedule", "linear-zero", "linear-to-zero"),
    ):
        with pytest.raises(UsageError, match=f"did you mean {meant}"):
            build_method("mpt-kl", num_old=OLD, **{key: value})


def test_a_killed_run_with_all_options_resumes_bit_equal(run: Train, digits: Split) -> None:
    old, _ = run(short_recipe("optim.epochs=1", "runtime.seed=7"), "old", only_old_classes=True)
    ref, _ = run(short_recipe("optim.epochs=1", "runtime.seed=9"), "ref")
    options = (
        "method.gate=student-wrong", "method.k_schedule=linear-from-zero", "optim.ema=0.9", "method.init=old",
    )  # fmt: skip
    recipe = short_recipe("runtime.checkpoint_every_steps=3", *options, method="mpt-kl")
    teachers = {"old": old.run.best, "refs": (ref.run.best,)}
    whole, _ = run(recipe, "whole", **teachers)
    for step in (6, 12):  # within an epoch, and at its end
        killed = RunRequest(recipe, digits, digits.run_root / f"killed {step}", **teachers)
        assert_goes_on(killed, "checkpoint", step, whole.run)
