"""Criteria against values counted by hand, against a second formula in numpy, and at their limits."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from mptctl.errors import UsageError
from mptctl.methods import build_criterion, build_method
from mptctl.methods.criteria import CRITERIA
from mptctl.names import METHOD_NAMES
from mptctl.recipe import CriterionRecipe, Recipe, change_recipe, load_recipe
from mptctl.recipe.criterion import SETTING_OF, CriterionName

NAMES = get_args(CriterionName)
# Far from every default, and from each other.
ODD: dict[str, dict[str, Any]] = {
    "ce": {},
    "ls": {"smoothing": 0.37},
    "fl": {"gamma": 0.7},
    "flsd": {},
    "ecp": {"weight": 1.9},
    "mbls": {"margin": 0.45, "alpha": 2.3, "reduction": "sum"},
}


def by_numpy(name: str, logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The criteria with the settings of `ODD`, row by row, from probabilities in extended precision."""
    losses = []
    for row, y in zip(logits.astype(np.longdouble), target, strict=True):
        p = np.exp(row) / np.exp(row).sum()
        own = p[y]
        ce = -np.log(own)
        losses.append(
            {
                "ce": ce,
                "ls": -0.63 * np.log(own) - 0.37 * sum(np.log(q) for q in p) / len(p),
                "fl": ce * (1 - own) ** np.longdouble("0.7"),
                "flsd": ce * (1 - own) ** (5 if own < 0.2 else 3),
                "ecp": ce + np.longdouble("1.9") * sum(q * np.log(q) for q in p),
                "mbls": ce
                + np.longdouble("2.3") * sum(max(0, row.max() - z - np.longdouble("0.45")) for z in row),
            }[name]
        )
    return np.array(losses, dtype=np.float64)


def odd(name: str, **more: Any) -> Callable[[Tensor, Tensor], Tensor]:
    return build_criterion(name, **ODD[name], **more)


def batch(rows: int = 40, classes: int = 7, seed: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(0, classes, (rows,), generator=generator)


def test_every_name_has_a_function() -> None:
    assert set(CRITERIA) == set(NAMES) == set(ODD)


# Two rows of logarithms, so that the probabilities are 1/6, 2/6, 3/6 and 8/10, 1/10, 1/10.
LOGITS = torch.tensor([[1.0, 2.0, 3.0], [8.0, 1.0, 1.0]], dtype=torch.float64).log()
TARGET = torch.tensor([0, 0])
CE = [math.log(6), math.log(1.25)]


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("ce", {}, CE),
        # -(.95 log p_y + .05 (log 1/6 + log 1/3 + log 1/2) / 3), and the same with .8, .1, .1.
        (
            "ls",
            {},
            [
                0.95 * CE[0] + 0.05 * (math.log(6) + math.log(3) + math.log(2)) / 3,
                0.95 * CE[1] + 0.05 * (math.log(1.25) + 2 * math.log(10)) / 3,
            ],
        ),
        ("fl", {}, [(5 / 6) ** 3 * CE[0], 0.2**3 * CE[1]]),
        ("fl", {"gamma": 2}, [(5 / 6) ** 2 * CE[0], 0.2**2 * CE[1]]),
        # 1/6 lies below 0.2, 0.8 does not.
        ("flsd", {}, [(5 / 6) ** 5 * CE[0], 0.2**3 * CE[1]]),
        # H: log 6 / 6 + log 3 / 3 + log 2 / 2, and .8 log 1.25 + .2 log 10.
        (
            "ecp",
            {},
            [
                CE[0] - 0.1 * (math.log(6) / 6 + math.log(3) / 3 + math.log(2) / 2),
                CE[1] - 0.1 * (0.8 * math.log(1.25) + 0.2 * math.log(10)),
            ],
        ),
        # Below a margin of 10 nothing is charged.
        ("mbls", {}, CE),
        # First row: log 3 - 0 - 1 and log 3 - log 2 - 1 < 0; second: log 8 - 1 twice.
        (
            "mbls",
            {"margin": 1},
            [CE[0] + 0.1 * (math.log(3) - 1) / 3, CE[1] + 0.1 * 2 * (math.log(8) - 1) / 3],
        ),
        # The published ablation without a margin: all distances count, here summed (Eq. 4).
        (
            "mbls",
            {"margin": 0, "alpha": 0.5, "reduction": "sum"},
            [CE[0] + 0.5 * (math.log(3) + math.log(1.5)), CE[1] + 0.5 * 2 * math.log(8)],
        ),
    ],
)
def test_two_rows_by_hand(name: str, parameters: dict[str, Any], expected: list[float]) -> None:
    got = build_criterion(name, **parameters)(LOGITS, TARGET)
    assert got.dtype == torch.float64
    assert got.tolist() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_a_second_formula_agrees_on_rows_and_on_dense_logits_with_ignored_places(name: str) -> None:
    """What an ignored place holds does not matter, and no logits are changed."""
    logits, target = batch(2 * 3 * 4)
    expected = by_numpy(name, logits.numpy().copy(), target.numpy())
    before = logits.clone()
    assert np.abs(odd(name)(logits, target).numpy() - expected).max() < 1e-12
    assert torch.equal(logits, before)
    dense = logits.reshape(2, 3, 4, 7).permute(0, 3, 1, 2)  # not contiguous, as of a channels-last net
    mask = target.reshape(2, 3, 4).clone()
    mask[0, 1], mask[1, 2, 3] = 255, 255
    dense[0, :, 1, 2] = torch.nan
    before = logits.clone()
    got = odd(name, ignore_index=255)(dense, mask)
    assert got.shape == (2, 3, 4)
    expected = expected.reshape(2, 3, 4)
    expected[mask.numpy() == 255] = 0
    assert np.abs(got.numpy() - expected).max() < 1e-12
    assert torch.equal(logits.nan_to_num(9), before.nan_to_num(9))


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_that_of_the_values(name: str) -> None:
    logits, target = batch(2 * 2 * 3, 4, seed=8)
    target[1] = -100
    dense, mask = logits.reshape(2, 4, 2, 3), target.reshape(2, 2, 3)
    for z, y in ((logits.clone(), target), (dense, mask)):
        assert torch.autograd.gradcheck(lambda z, y=y: odd(name)(z, y), z.requires_grad_())


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("ls", {"smoothing": 0.0}),
        ("fl", {"gamma": 0.0}),
        ("ecp", {"weight": 0.0}),
        ("mbls", {"margin": 1e9}),
        ("mbls", {"margin": math.inf}),
        ("mbls", {"margin": 0.0, "alpha": 0.0}),
    ],
)
def test_at_its_limit_each_is_cross_entropy(name: str, parameters: dict[str, float]) -> None:
    logits, target = batch()
    values, gradients = [], []
    for criterion in (build_criterion("ce"), build_criterion(name, **parameters)):
        leaf = logits.clone().requires_grad_()
        values.append(criterion(leaf, target))
        values[-1].sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(values[1], values[0], atol=1e-13, rtol=0)
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-13, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_logits_whose_exponential_overflows(name: str, dtype: torch.dtype) -> None:
    logits = torch.tensor(
        [[6e4, 0.0, -6e4], [0.0, 6e4, 0.0], [6e4, 6e4, 6e4]], dtype=dtype, requires_grad=True
    )
    losses = odd(name)(logits, torch.tensor([0, 0, 1]))
    assert losses.isfinite().all()
    losses.sum().backward()
    assert logits.grad.isfinite().all()
    assert logits.grad.dtype == dtype
    assert losses.dtype == (dtype if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2, 2), (0, 3)])
@pytest.mark.parametrize("name", NAMES)
def test_where_everything_is_ignored_it_is_0_and_no_nan(name: str, shape: tuple[int, ...]) -> None:
    logits = torch.full(shape, torch.nan, requires_grad=True)
    losses = odd(name)(logits, torch.full(shape[:1] + shape[2:], -100))
    assert losses.shape == shape[:1] + shape[2:]
    assert not losses.any()
    losses.sum().backward()
    assert not logits.grad.any()


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"mbls: logits \(4, 3, 2, 2\) and target \(4,\) do not fit"):
        build_criterion("mbls")(torch.zeros(4, 3, 2, 2), torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("mlbs", {}, "did you mean mbls"),
        ("mbls", {"margn": 3.0}, r"did you mean criterion\.margin"),
        ("ls", {"smoothing": -0.1}, r"criterion\.smoothing: .*got -0\.1"),
        ("ls", {"smoothing": 1.1}, r"criterion\.smoothing: .*got 1\.1"),
        ("mbls", {"alpha": -1.0}, r"criterion\.alpha: .*got -1"),
        ("mbls", {"margin": math.nan}, r"criterion\.margin: .*got nan"),
        ("fl", {"gamma": -1.0}, r"criterion\.gamma: .*got -1"),
        ("fl", {"gamma": math.inf}, r"criterion\.gamma: .*finite"),
    ],
)
def test_an_unknown_name_or_value_is_refused(name: str, parameters: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        build_criterion(name, **parameters)
    assert raised.value.exit_code == 2


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    logits, target = batch(12, 7)
    ref, _ = batch(12, 7, seed=5)
    old, _ = batch(12, 4, seed=6)
    target[4] = -100
    # A teacher that is right somewhere, so that its weights count.
    old[0, target[0] if target[0] < 4 else 0] = 20.0
    return logits, target, old, ref


@pytest.mark.parametrize("criterion", [n for n in NAMES if n != "ce"])
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_it_is_the_base_term_of_every_method_and_distillation_stays(method: str, criterion: str) -> None:
    """On z + Delta, times the weights of pct-naive; the other terms are those of cross-entropy, to the bit."""
    logits, target, old, ref = inputs()
    settings: dict[str, Any] = {"num_old": 4, "k": 1.5, "elodi_start_epoch": 0, "naive_weight": 2.0}
    plain = build_method(method, **settings)
    other = build_method(method, criterion={"name": criterion, **ODD[criterion]}, **settings)
    want, got = plain(logits, target, old, ref), other(logits, target, old, ref)
    assert list(got) == list(want)
    for term in set(want) - {"loss", "ce"}:
        assert torch.equal(got[term], want[term]), term
    bias = torch.tensor([0.0] * 4 + [float(plain.settings.k)] * 3, dtype=torch.float64)
    weight = 1 + plain.settings.ce_focal_weight * (old.argmax(1) == target)
    base = (weight * odd(criterion)(logits + bias, target)).sum() / 11
    torch.testing.assert_close(got["ce"], base, atol=1e-12, rtol=0)

    leaf = logits.clone().requires_grad_()
    other(leaf, target, old, ref)["loss"].backward()
    terms, grad = other.value_and_grad(logits, target, old, ref)
    torch.testing.assert_close(grad, leaf.grad, atol=1e-12, rtol=0)
    assert not grad[4].any()
    assert (terms["correct"], terms["loss"]) == (
        plain.value_and_grad(logits, target, old, ref)[0]["correct"],
        got["loss"],
    )


@pytest.mark.parametrize("method", ["elodi", "elodi-topk"])
def test_a_method_that_starts_late_has_the_criterion_before_too(method: str) -> None:
    logits, target, old, ref = inputs()
    built = build_method(method, num_old=4, criterion={"name": "ls"})
    assert (built.start_epoch, built.for_epoch(6)) == (6, built)
    before = built.for_epoch(0)
    assert before.teachers == frozenset()
    expected = build_criterion("ls")(logits, target).sum() / 11
    assert before(logits, target, old, ref)["loss"].item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_with_cross_entropy_a_method_is_the_same(method: str) -> None:
    """The fused loss keeps serving it."""
    plain, named = (build_method(method, num_old=4, **more) for more in ({}, {"criterion": {"name": "ce"}}))
    assert repr(named) == repr(plain)


def test_each_setting_belongs_to_the_criterion_that_reads_it() -> None:
    for name, function in CRITERIA.items():
        read = inspect.signature(function).parameters.keys() & CriterionRecipe.model_fields.keys()
        assert read == {key for key, owner in SETTING_OF.items() if owner == name}
        for key in SETTING_OF.keys() - read:
            value = CriterionRecipe.model_fields[key].default
            with pytest.raises(UsageError, match=rf"criterion\.{key}: is a setting of {SETTING_OF[key]}"):
                build_criterion(name, **{key: value})


def test_a_recipe_without_the_group_is_cross_entropy(tmp_path: Any) -> None:
    (tmp_path / "old.yaml").write_text("optim:\n  lr: 0.1\n")
    recipe = load_recipe(str(tmp_path / "old.yaml"))
    assert recipe.criterion == CriterionRecipe.model_validate({"name": "ce"})
    dumped = recipe.model_dump()
    del dumped["criterion"]
    assert Recipe.model_validate(dumped) == recipe


def test_an_infinite_margin_survives_a_recipe_and_a_checkpoint(tmp_path: Any) -> None:
    recipe = change_recipe(Recipe(), {"criterion.name": "mbls", "criterion.margin": math.inf}, "here")
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    assert load_recipe(str(tmp_path / "recipe.yaml")) == recipe
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe
