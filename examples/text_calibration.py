"""Text: a criterion in a plain PyTorch loop, and what it does to calibration.

    python examples/text_calibration.py                           # generated texts
    python examples/text_calibration.py --data 20news-bydate      # 20 Newsgroups, as its archive unpacks

The archive's folders 20news-bydate-train and 20news-bydate-test hold a folder of texts for each group. Vectors are
the TF-IDF of scikit-learn (`pip install scikit-learn`), the net has one hidden layer.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_files
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import nn

from mptctl.evaluation.calibration.report import CalibrationReport, measure_calibration
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.methods import build_criterion

# Texts and the number of each one's group.
Texts = tuple[list[str], np.ndarray]


def read_groups(folder: Path) -> tuple[Texts, Texts, tuple[str, ...]]:
    """Training and test texts of 20 Newsgroups, and the names of the groups."""
    parts = [load_files(folder / f"{folder.name}-{part}", encoding="latin-1") for part in ("train", "test")]
    train, test = ((part.data, part.target) for part in parts)
    return train, test, tuple(parts[0].target_names)


def generate_groups(seed: int = 0) -> tuple[Texts, Texts, tuple[str, ...]]:
    """Texts of four groups, each of which likes some words more than others."""
    rng = np.random.default_rng(seed)
    words = np.array([f"word{i}" for i in range(200)])
    taste = rng.dirichlet(np.full(200, 0.5), size=4)

    def part(count: int) -> Texts:
        groups = rng.integers(0, 4, count)
        return [" ".join(rng.choice(words, 6, p=taste[group])) for group in groups], groups

    return part(400), part(400), ("autos", "hockey", "medicine", "space")


def train(
    vectors: torch.Tensor, groups: torch.Tensor, classes: int, criterion_name: str, epochs: int
) -> nn.Module:
    """A net that is trained with a criterion."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(vectors.shape[1], 64), nn.ReLU(), nn.Linear(64, classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = build_criterion(criterion_name)
    for _ in range(epochs):
        for rows in torch.randperm(len(groups)).split(64):
            loss = criterion(model(vectors[rows]), groups[rows]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def run(data: Path | None, criterion: str, epochs: int) -> CalibrationReport:
    """Train with a criterion, and measure on the test texts."""
    (texts, groups), (test_texts, test_groups), names = (
        generate_groups() if data is None else read_groups(data)
    )
    vectorizer = TfidfVectorizer(max_features=20_000, sublinear_tf=True)
    vectors = torch.from_numpy(vectorizer.fit_transform(texts).toarray()).float()
    model = train(vectors, torch.from_numpy(groups), len(names), criterion, epochs)
    with torch.no_grad():
        logits = model(torch.from_numpy(vectorizer.transform(test_texts).toarray()).float()).numpy()
    ids, labels = np.arange(len(test_groups)).astype(str), np.array(names)[test_groups]
    return measure_calibration(build_predictions(criterion, ids, labels, logits=logits, classes=names))


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare criteria on the same texts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of 20 Newsgroups; default: generated texts")
    parser.add_argument("--criterion", nargs="+", default=["ce", "ls", "mbls"])
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args(arguments)
    for name in given.criterion:
        report = run(given.data, name, given.epochs)
        print(f"{name:5} accuracy {report.accuracy:.4f}  ECE {report.ece:.4f}  NLL {report.nll:.4f}")


if __name__ == "__main__":
    main()
