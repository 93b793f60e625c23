"""Features of an embedding, the classifier over them, and their variance between and within classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mptctl.data.split import Split
from mptctl.errors import NonFiniteError
from mptctl.inference.discriminability import compute_spread
from mptctl.inference.embedding import compute_embeddings
from mptctl.inference.predict import predict
from mptctl.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from mptctl.names import Session
from tests.common import Train, short_recipe

CPU = Session(device="cpu")
FLAT = ("model.embedding_dim=2", "optim.max_steps=30")


@pytest.fixture
def models(digits: Split, run: Train) -> dict[str, Checkpoint]:
    """An old model and a new one, each with an embedding of two dimensions."""
    run(short_recipe(*FLAT, "runtime.seed=1"), "old", only_old_classes=True)
    run(short_recipe(*FLAT), "new")
    return {name: load_checkpoint(digits.run_root / name / "best.pt") for name in ("old", "new")}


def test_the_classifier_over_the_features_gives_the_models_answers(
    digits: Split, models: dict[str, Checkpoint]
) -> None:
    rows = digits.indices("test")
    predictions = predict(models, digits, CPU, part="test")
    for name, found in compute_embeddings(models, digits, CPU).items():
        known = digits.labels[rows] < (5 if name == "old" else 10)
        assert found.points.shape == (int(known.sum()), 2)
        np.testing.assert_array_equal(found.labels, digits.labels[rows][known])
        logits = predictions[name].logits
        assert logits is not None
        np.testing.assert_allclose(
            found.points @ found.weight.T + found.bias, logits[known], rtol=1e-4, atol=1e-4
        )
        np.testing.assert_array_equal(found.predict(found.points), logits[known].argmax(1))
        assert found.num_old == 5
        assert found.class_names == digits.classes.names


def test_a_model_of_another_class_order_answers_in_that_of_the_split(
    digits: Split, models: dict[str, Checkpoint]
) -> None:
    new = models["new"]
    order = torch.tensor([3, 1, 0, 2, 9, 8, 7, 6, 5, 4])
    names = tuple(new.meta.class_names[i] for i in order)
    weights = dict(new.model)
    for key in ("fc.1.weight", "fc.1.bias"):
        weights[key] = weights[key][order]
    path = digits.run_root / "turned.pt"
    save_checkpoint(path, new.meta.model_copy(update={"class_names": names}), weights)
    straight, turned = compute_embeddings({"a": new, "b": load_checkpoint(path)}, digits, CPU).values()
    np.testing.assert_array_equal(straight.points, turned.points)
    np.testing.assert_array_equal(straight.predict(straight.points), turned.predict(turned.points))


def test_features_that_are_not_finite_are_refused(
    digits: Split, models: dict[str, Checkpoint], tmp_path: Path
) -> None:
    weights = {
        key: torch.full_like(t, torch.nan) if key == "fc.0.bias" else t
        for key, t in models["new"].model.items()
    }
    path = tmp_path / "nan.pt"
    save_checkpoint(path, models["new"].meta, weights)
    with pytest.raises(NonFiniteError, match=r"nan\.pt: .*not finite"):
        compute_embeddings({"nan": load_checkpoint(path)}, digits, CPU)


def test_a_case_by_hand() -> None:
    """Class a has (1, 0) and (0, 1): mean (.5, .5), distances .5 each. Class b has (-1, 0): mean itself, 0.

    Within: (.5 + 0) / 2 = .25. Between: 1.5^2 + .5^2 = 2.5.
    """
    features = np.array([[3, 0], [0, 0.2], [-5, 0], [-1, 0]], dtype=np.float32)
    found = compute_spread(features, np.array(["a", "a", "b", "b"]))
    assert found is not None
    assert (found.classes, found.pictures) == (2, 4)
    assert (found.between, found.within, found.ratio) == pytest.approx((2.5, 0.25, 10.0), abs=1e-6)


def test_many_classes_are_the_mean_over_pairs() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60, 5)).astype(np.float32)
    labels = np.array(list("abcdef") * 10)
    x = features / np.linalg.norm(features, axis=1, keepdims=True)
    means = np.stack([x[labels == name].mean(axis=0) for name in "abcdef"]).astype(np.float64)
    pairs = [((means[i] - means[j]) ** 2).sum() for i in range(6) for j in range(6) if i != j]
    found = compute_spread(features, labels)
    assert found is not None
    assert found.between == pytest.approx(np.mean(pairs), rel=1e-5)


def test_edges() -> None:
    features = np.array([[1, 0], [0, 1], [0, 0]], dtype=np.float32)
    assert compute_spread(features[:2], np.array(["a", "a"])) is None
    found = compute_spread(features, np.array(["a", "b", "c"]))
    assert found is not None
    assert (found.within, found.ratio) == (0.0, None)
