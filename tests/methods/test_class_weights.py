"""Weights of classes: what is computed of the numbers of pictures, what a file says, and what they weigh."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from mptctl.errors import UsageError
from mptctl.methods import build_criterion, build_method
from mptctl.methods.class_weights import compute_class_weights
from mptctl.recipe import CriterionRecipe, load_recipe
from mptctl.recipe.criterion import EFFECTIVE_BETA

NAMES, COUNTS = ["ant", "bee", "cat"], np.array([100, 20, 5])


def weights_of(said: object) -> list[float]:
    weights = compute_class_weights(CriterionRecipe(class_weights=said), NAMES, COUNTS)
    return weights.tolist()


def test_inverse_weights_give_each_class_the_same_sum_and_keep_the_mean() -> None:
    weights = weights_of("inverse")
    assert [w * n for w, n in zip(weights, COUNTS, strict=True)] == pytest.approx([125 / 3] * 3)
    # A class without pictures changes nothing for the others: the three with pictures, 1 + 3 + 50, have 54 / 3 each.
    recipe = CriterionRecipe(class_weights="inverse")
    weights = compute_class_weights(recipe, ["ant", "bee", "cat", "dog"], np.array([1, 3, 50, 0]))
    assert weights.tolist() == pytest.approx([18, 6, 18 / 50, 18])


def test_effective_weights_are_those_of_the_paper() -> None:
    weights = weights_of("effective")
    by_hand = [1 / sum(EFFECTIVE_BETA**i for i in range(n)) for n in COUNTS]  # Eq. 3: 1 + beta + beta^2 + ...
    assert weights[1] / weights[0] == pytest.approx(by_hand[1] / by_hand[0])
    assert weights[2] / weights[0] == pytest.approx(by_hand[2] / by_hand[0])
    assert np.dot(weights, COUNTS) == pytest.approx(COUNTS.sum())


def test_a_file_is_read_into_the_recipe_and_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "weights.yaml"
    file.write_text("cat: 4\nant: 0.5\nbee: 1\n007: 2\n")
    recipe = load_recipe("digits", [f"criterion.class_weights={file}"])
    assert recipe.criterion.class_weights == {"cat": 4.0, "ant": 0.5, "bee": 1.0, "007": 2.0}
    assert weights_of(recipe.criterion.class_weights) == [0.5, 1.0, 4.0]
    assert (
        len({recipe, load_recipe("digits", [f"criterion.class_weights={file}"]), load_recipe("digits")}) == 2
    )
    file.unlink()
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    assert load_recipe(str(tmp_path / "recipe.yaml")) == recipe
    over = load_recipe(str(tmp_path / "recipe.yaml"), ["criterion.class_weights=inverse"])
    assert over.criterion.class_weights == "inverse"
    assert load_recipe("digits").criterion.class_weights is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ant: 1\nbee: 2\n", r"no weight of cat; add it to the file"),
        ("ant: 1\nbee: 2\ncats: 2\n", r"no weight of cat; did you mean cats\?"),
        ("ant: 1\nbee: 0\ncat: 1\n", r"bee: must be above 0, got 0"),
        ("ant: 1\nbee: many\ncat: 1\n", r"criterion\.class_weights: must be a valid number"),
        ("- 1\n- 2\n", r"must be a mapping of keys, got a list"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_a_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "weights.yaml").write_text(text)
    said = [f"criterion.class_weights={tmp_path}/weights.yaml"]
    with pytest.raises(UsageError, match=message) as caught:
        weights_of(load_recipe("digits", said).criterion.class_weights)
    assert "\n" not in str(caught.value)


def test_a_word_that_is_no_choice_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no such file or choice: invers; did you mean inverse\?"):
        load_recipe("digits", ["criterion.class_weights=invers"])
    with pytest.raises(UsageError, match="give weights as the argument class_weights"):
        build_method("no-treatment", num_old=1, criterion={"class_weights": "inverse"})


def test_the_criterion_is_pytorchs_with_weights() -> None:
    torch.manual_seed(0)
    logits, target, weights = torch.randn(8, 3), torch.arange(8) % 3, torch.tensor([0.5, 1.0, 4.0])
    target[3] = -100
    for name, smoothing in (("ce", 0.0), ("ls", 0.1)):
        parameters = {"smoothing": smoothing} if smoothing else {}
        ours = build_criterion(name, class_weights=weights, **parameters)(logits, target)
        plain = F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing)
        torch.testing.assert_close(ours, plain * weights[target.clamp(min=0)])
    by_torch = F.cross_entropy(logits, target, weight=weights, reduction="none")
    torch.testing.assert_close(build_criterion("ce", class_weights=weights)(logits, target), by_torch)


def test_weights_multiply_the_criterion_and_leave_distillation_alone() -> None:
    torch.manual_seed(1)
    z, old, ref = torch.randn(6, 3), torch.randn(6, 2), torch.randn(6, 3)
    target, weights = torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([0.5, 1.0, 4.0])
    plain = build_method("mpt-kl", num_old=2)
    weighted = build_method("mpt-kl", num_old=2, class_weights=weights)
    terms, grad = weighted.value_and_grad(z, target, old, ref)
    rows = plain.terms(z, target, old, ref, plain.settings)["ce"]
    assert float(terms["ce"]) == pytest.approx(float((rows * weights[target]).mean()), rel=1e-6)
    for name in ("fd_old", "fd_ref"):
        assert float(terms[name]) == pytest.approx(float(plain(z, target, old, ref)[name]), rel=1e-6)
    leaf = z.clone().requires_grad_()
    weighted(leaf, target, old, ref)["loss"].backward()
    torch.testing.assert_close(grad, leaf.grad)
    # ELODI's first epochs, which are plain cross-entropy, have them too.
    first = build_method("elodi", num_old=2, class_weights=weights).for_epoch(0)
    by_torch = 4 * float(F.cross_entropy(z, target, reduction="none")[2])
    assert float(first.terms(z, target, None, None, first.settings)["ce"][2]) == pytest.approx(
        by_torch, rel=1e-6
    )
