"""Shared by the examples of loops: scikit-learn's digits, an old model of five classes, a reference of ten."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor

OLD_CLASSES, CLASSES = 5, 10


class Digits(NamedTuple):
    """Pictures (N, 1, 8, 8), labels (N,), and teachers: whatever gives logits (N, C) of pictures."""

    pictures: Tensor
    labels: Tensor
    old: Callable[[Tensor], Tensor]
    ref: Callable[[Tensor], Tensor]


def digits() -> tuple[Digits, Digits]:
    """The digits to train on, and those to test on."""
    pictures = torch.tensor(load_digits().images).float()[:, None] / 8 - 1
    labels, test = torch.tensor(load_digits().target), torch.arange(len(pictures)) % 4 == 0

    def teacher(known: Tensor) -> Callable[[Tensor], Tensor]:
        model = LogisticRegression(max_iter=300).fit(pictures[known].flatten(1), labels[known])
        return lambda asked: torch.tensor(model.decision_function(asked.flatten(1))).float()

    teachers = teacher(~test & (labels < OLD_CLASSES)), teacher(~test)
    return Digits(pictures[~test], labels[~test], *teachers), Digits(pictures[test], labels[test], *teachers)
