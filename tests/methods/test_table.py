"""Methods against the published code's numbers, against cases counted by hand, and by name."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from mpt_kernels.types import LossSettings
from mptctl.errors import UsageError
from mptctl.methods import build_method
from mptctl.methods.rows import chosen_mpt_method, distance_of, mpt_method, refuse_if_never_on, used_keys
from mptctl.methods.terms import topk_lm_distance
from mptctl.names import METHOD_NAMES, Role
from mptctl.recipe import MethodRecipe, Recipe

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.npz"))
CASES = [(path, name[5:]) for path in GOLDEN for name in np.load(path).files if name.startswith("loss/")]


@pytest.mark.parametrize(("path", "name"), CASES, ids=[f"{p.stem}-{n}" for p, n in CASES])
@pytest.mark.parametrize(("dtype", "atol", "rtol"), [(torch.float64, 1e-9, 0.0), (torch.float32, 0.0, 1e-5)])
def test_loss_and_gradient_are_those_of_the_published_code(
    path: Path, name: str, dtype: torch.dtype, atol: float, rtol: float
) -> None:
    golden = np.load(path)
    method = build_method(name, num_old=int(golden["num_old"]), k=float(golden["k"]))
    logits, old, ref = (
        torch.from_numpy(golden[key]).to(dtype) for key in ("logits", "old_logits", "ref_logits")
    )
    target = torch.from_numpy(golden["target"])
    leaf = logits.clone().requires_grad_()
    loss = method(leaf, target, old_logits=old, ref_logits=ref)["loss"]
    loss.backward()
    terms, grad = method.value_and_grad(logits, target, old_logits=old, ref_logits=ref)
    want_loss, want_grad = torch.tensor(golden[f"loss/{name}"]), torch.from_numpy(golden[f"grad/{name}"])
    scale = float(want_grad.abs().max())
    for got_loss, got_grad in ((loss.detach(), leaf.grad), (terms["loss"], grad)):
        torch.testing.assert_close(got_loss.double(), want_loss, atol=atol, rtol=rtol)
        # A gradient's relative error is against its largest entry: single ones are differences near zero.
        torch.testing.assert_close(got_grad.double(), want_grad, atol=atol + rtol * scale, rtol=0.0)


def hand_made() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two samples, three classes of which two are old."""
    logits = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]], dtype=torch.float64)
    target = torch.tensor([0, 2])
    old = torch.tensor([[2.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    ref = torch.tensor([[1.0, 1.0, 5.0], [2.0, 3.0, 7.0]], dtype=torch.float64)
    return logits, target, old, ref


def cross_entropy_by_hand() -> float:
    first = -1.0 + np.log(np.e + 1 + np.e**2)
    second = -1.0 + np.log(1 + np.e**3 + np.e)
    return float(first + second) / 2


def test_elodi_counted_by_hand() -> None:
    logits, target, old, ref = hand_made()
    terms = build_method("elodi", num_old=2)(logits, target, old_logits=old, ref_logits=ref)
    # old: (1-2)^2 + (0-1)^2 = 2, by 2 classes, halved: 0.5; second sample 0 + 4 -> 1. Mean 0.75, times 0.6.
    assert terms["fd_old"].item() == pytest.approx(0.6 * 0.75)
    # ref: 0 + 1 + 9 = 10, by 3, halved: 10/6; second 4 + 0 + 36 = 40 -> 40/6. Mean 25/6, times 0.4.
    assert terms["fd_ref"].item() == pytest.approx(0.4 * 25 / 6)
    assert terms["ce"].item() == pytest.approx(cross_entropy_by_hand())
    assert terms["loss"].item() == pytest.approx(sum(terms[t].item() for t in ("ce", "fd_old", "fd_ref")))


def test_elodi_topk_counted_by_hand() -> None:
    logits, target, old, ref = hand_made()
    method = build_method("elodi-topk", num_old=2, elodi_top_k=1)
    terms, grad = method.value_and_grad(logits, target, old_logits=old, ref_logits=ref)
    # old's largest: column 0 (1-2)^2 = 1 by 2 classes, halved: 0.25; column 1 (3-1)^2 = 4 -> 1. Mean 0.625.
    assert terms["fd_old"].item() == pytest.approx(0.6 * 0.625)
    # ref's largest: column 2 (2-5)^2 = 9 by 3 classes, halved: 1.5; (1-7)^2 = 36 -> 6. Mean 3.75.
    assert terms["fd_ref"].item() == pytest.approx(0.4 * 3.75)
    assert (terms["correct"], terms["correct_old"], terms["correct_ref"]) == (0, 1, 1)
    leaf = logits.clone().requires_grad_()
    method(leaf, target, old_logits=old, ref_logits=ref)["loss"].backward()
    torch.testing.assert_close(grad, leaf.grad)


def test_topk_keeps_k_logits_of_each_sample_not_k_samples() -> None:
    student, teacher = torch.zeros(5, 4), torch.arange(20.0).reshape(5, 4)
    expected = [(a**2 + (a - 1) ** 2) / 8 for a in (3, 7, 11, 15, 19)]
    assert topk_lm_distance(student, teacher, 2).tolist() == pytest.approx(expected)
    # All classes: plain matching.
    torch.testing.assert_close(topk_lm_distance(student, teacher, 99), 0.5 * teacher.square().mean(1))
    with pytest.raises(ValueError, match="differ in shape"):
        topk_lm_distance(student, teacher[:, 1:], 1)


def test_two_equal_infinities_among_the_topk_are_no_distance() -> None:
    """By hand: (1 - 2)^2 / 2 / 3 to the reference, 0 to the old model; softmax (3/4, 1/4, 0)."""
    infinity = float("inf")
    logits = torch.tensor([[1.0, 1.0 - np.log(3), -infinity]], dtype=torch.float64)
    ref = torch.tensor([[2.0, 1.0 - np.log(3), -infinity]], dtype=torch.float64)
    method = build_method("elodi-topk", num_old=2, elodi_top_k=3)
    terms, grad = method.value_and_grad(logits, torch.tensor([0]), logits[:, :2], ref)
    assert terms["loss"].item() == pytest.approx(-np.log(3 / 4) + 0.4 / 6, rel=1e-12)
    assert grad[0].tolist() == pytest.approx([3 / 4 - 1 - 0.4 / 3, 1 / 4, 0.0], rel=1e-12)


@pytest.mark.parametrize("name", ["elodi", "elodi-topk"])
def test_elodi_is_plain_cross_entropy_before_its_seventh_epoch(name: str) -> None:
    logits, target, old, ref = hand_made()
    method = build_method(name, num_old=2)
    before = method.for_epoch(5)
    assert before.teachers == frozenset()
    terms, _ = before.value_and_grad(logits, target)
    assert terms["loss"].item() == pytest.approx(cross_entropy_by_hand())
    assert method.for_epoch(6) is method
    assert method(logits, target, old, ref)["loss"].item() > terms["loss"].item()


@pytest.mark.parametrize("name", ["mpt-kl", "mpt-lm"])
def test_without_the_reference_mpt_has_its_other_terms(name: str) -> None:
    logits, target, old, ref = hand_made()
    whole = build_method(name, num_old=2, k=1.5)(logits, target, old, ref)
    terms = build_method(f"{name}-noref", num_old=2, k=1.5)(logits, target, old)
    assert set(terms) == {"loss", "ce", "fd_old"}
    assert whole["fd_ref"].item() > 0
    assert terms["loss"].item() == pytest.approx((whole["loss"] - whole["fd_ref"]).item(), rel=1e-12)
    assert terms["ce"].item() == whole["ce"].item()


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_a_batch_in_pieces_has_the_gradient_of_the_whole(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    logits, ref = torch.randn(2, 12, 7, generator=generator, dtype=torch.float64)
    old = torch.randn(12, 4, generator=generator, dtype=torch.float64)
    target = torch.randint(0, 7, (12,), generator=generator)
    target[5] = -100
    method = build_method(name, num_old=4, elodi_start_epoch=0)
    _, whole = method.value_and_grad(logits, target, old, ref)
    pieces = [
        method.value_and_grad(logits[s], target[s], old[s], ref[s], normalizer=11)[1]
        for s in (slice(0, 2), slice(2, 9), slice(9, 12))
    ]
    torch.testing.assert_close(torch.cat(pieces), whole, atol=1e-12, rtol=0)
    assert not whole[5].any()


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_every_method_asks_for_the_teachers_that_it_needs(name: str) -> None:
    logits, target, old, ref = hand_made()
    method = build_method(name, num_old=2)
    if Role.OLD in method.teachers:
        with pytest.raises(ValueError, match=f"{name} needs old_logits"):
            method(logits, target, ref_logits=ref)
    if Role.REF in method.teachers:
        with pytest.raises(ValueError, match=f"{name} needs ref_logits"):
            method(logits, target, old_logits=old)
    wanted = {
        "old_logits": old if Role.OLD in method.teachers else None,
        "ref_logits": ref if Role.REF in method.teachers else None,
    }
    with_all = method(logits, target, old_logits=old, ref_logits=ref)
    assert torch.equal(method(logits, target, **wanted)["loss"], with_all["loss"])


@pytest.mark.parametrize(
    "recipe", [{}, {"tau": 5.0, "tau_squared": False, "lam": 9.0, "alpha": 3.0, "beta": 0.0}]
)
def test_pct_as_its_authors_set_it_counted_by_hand(recipe: dict[str, float]) -> None:
    """Tau 100, times tau squared, weight 1, focal weights 1 + 5, whatever the recipe says."""
    logits, target, old, _ = hand_made()
    method = build_method("pct-kl-own", num_old=2, **recipe)
    terms, grad = method.value_and_grad(logits, target, old_logits=old)
    # Of two classes q = sigmoid(difference / tau): old 1 and -1, student 1 and -3. Equal in the first sample.
    teacher, student = 1 / (1 + np.exp(0.01)), 1 / (1 + np.exp(0.03))
    kl = teacher * np.log(teacher / student) + (1 - teacher) * np.log((1 - teacher) / (1 - student))
    # The second label is a new class, which the old model does not get right: weight 1.
    assert terms["fd_old"].item() == pytest.approx(1e4 * kl / 2, rel=1e-9)
    assert terms["ce"].item() == pytest.approx(cross_entropy_by_hand())
    assert terms["loss"].item() == pytest.approx(cross_entropy_by_hand() + 1e4 * kl / 2)
    # d (tau^2 KL) / dz = tau (q_s - q_t), by two samples.
    exp = np.exp([0.0, 3.0, 1.0])
    own = (exp / exp.sum() - [0, 0, 1] + 100 * np.array([student - teacher, teacher - student, 0])) / 2
    torch.testing.assert_close(grad[1], torch.from_numpy(own), rtol=1e-12, atol=1e-12)
    # Six where the old model is right.
    flat = torch.zeros(1, 3, dtype=torch.float64)
    right, wrong = (method(flat, torch.tensor([y]), old[:1])["fd_old"].item() for y in (0, 1))
    assert right == pytest.approx(6 * wrong)


def test_an_unknown_method_or_setting_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean pct-kl"):
        build_method("pct_kl", num_old=2)
    with pytest.raises(UsageError, match=r"did you mean method\.alpha"):
        build_method("mpt-kl", num_old=2, alhpa=1.0)


def test_a_distance_chooses_the_method_and_its_lambda() -> None:
    assert build_method("mpt-kl", num_old=2).settings.lam_ref == 1.0
    assert build_method("mpt-lm", num_old=2).settings.lam_ref == 0.4
    assert build_method("mpt-lm", num_old=2, lam=0.7).settings.lam_old == 0.7
    tuned = MethodRecipe(name="mpt-lm")  # a recipe with a distance needs no flag for it
    assert [chosen_mpt_method(tuned, *more) for more in ((), ("kl",))] == ["mpt-lm", "mpt-kl"]
    assert chosen_mpt_method(MethodRecipe()) == mpt_method("kl") == "mpt-kl"
    assert mpt_method("lm", with_ref=False) == "mpt-lm-noref"
    found = {kind: {name for name in METHOD_NAMES if distance_of(name) == kind} for kind in (None, "kl")}
    assert found[None] == {"no-treatment", "pct-naive", "mpt-nodistill"}
    assert found["kl"] == {"pct-kl", "pct-kl-own", "mpt-kl", "mpt-kl-noref", "mpt-kl-nobias"}


@pytest.mark.parametrize(
    ("method", "optim", "message"),
    [
        (
            "elodi",
            {"epochs": 6},
            r"epochs 6: .*epoch 7 .*elodi_start_epoch 6.*set optim\.epochs to at least 7",
        ),
        ("elodi", {"epochs": 9, "max_steps": 60}, r"max_steps 60: .*set optim\.max_steps to at least 61"),
        ("elodi", {"epochs": 7}, None),
        ("elodi", {"epochs": 9, "max_steps": 61}, None),
        ("mpt-kl", {"epochs": 1, "max_steps": 1}, None),
    ],
)
def test_a_run_that_ends_before_the_method_begins_is_refused(
    method: str, optim: dict[str, int], message: str | None
) -> None:
    recipe = Recipe.model_validate({"method": {"name": method}, "optim": optim})
    with pytest.raises(UsageError, match=message) if message else nullcontext():
        refuse_if_never_on(recipe, 10)


def test_naive_weight_is_what_is_added_where_the_old_model_is_right() -> None:
    logits, target, old, _ = hand_made()
    method = build_method("pct-naive", num_old=2, naive_weight=3.0)
    first = -1.0 + np.log(np.e + 1 + np.e**2)
    # The old model is right about the first sample, never about the second, which is of a new class.
    expected = (4 * first + 2 * cross_entropy_by_hand() - first) / 2
    assert method(logits, target, old_logits=old)["loss"].item() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["elodi", "elodi-topk"])
def test_elodis_weights_are_those_of_the_recipe(name: str) -> None:
    logits, target, old, ref = hand_made()
    given = build_method(name, num_old=2, elodi_old=0.5, elodi_ref=0.25)(logits, target, old, ref)
    plain = build_method(name, num_old=2)(logits, target, old, ref)
    assert given["fd_old"].item() == pytest.approx(plain["fd_old"].item() * 0.5 / 0.6)
    assert given["fd_ref"].item() == pytest.approx(plain["fd_ref"].item() * 0.25 / 0.4)
    without = build_method(name, num_old=2, elodi_old=0.0)(logits, target, old, ref)
    assert "fd_old" not in without


def test_the_recipes_defaults_are_those_of_the_loss() -> None:
    recipe, loss = MethodRecipe.model_validate({}), LossSettings(num_old=2)
    for key in ("alpha", "beta", "tau", "tau_squared", "lm_reduction"):
        assert getattr(recipe, key) == getattr(loss, key), key


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_a_key_that_a_method_uses_changes_its_loss_and_any_other_does_not(name: str) -> None:
    other = MethodRecipe(
        k=0.5, k_schedule="linear-to-zero", lam=0.3, alpha=0.2, beta=0.1, tau=2.0, tau_squared=True,
        lm_reduction="sum", gate="student-wrong", naive_weight=3.0, elodi_old=0.1, elodi_ref=0.2,
        elodi_start_epoch=2, elodi_top_k=3,
    )  # fmt: skip
    chance = torch.Generator().manual_seed(1)
    logits, old, ref = (torch.randn(40, width, generator=chance) for width in (12, 5, 12))
    target = torch.randint(12, (40,), generator=chance)

    def gradients(**keys: object) -> list[Tensor]:
        """Of each epoch of a run of eight."""
        method = build_method(name, num_old=5, **keys)
        epochs = [method.for_epoch(epoch, 8) for epoch in range(8)]
        return [each.value_and_grad(logits, target, old, ref)[1] for each in epochs]

    plain = gradients()
    tried = set(MethodRecipe.model_fields) - {"name", "settings", "init", "max_nfr", "confidence"}
    changing = {
        key for key in tried if not all(map(torch.equal, gradients(**{key: getattr(other, key)}), plain))
    }
    assert changing == used_keys(name) & tried
