"""Segmentation: a criterion on dense logits in a plain PyTorch loop, and the calibration of single pixels.

    python examples/segmentation_calibration.py

Pictures are generated: squares and discs in noise. As in PASCAL VOC, the pixels of an outline are labelled 255 and
count neither in the loss nor in what is measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from mptctl.evaluation.calibration.report import CalibrationReport, measure_calibration
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.methods import build_criterion

CLASSES = ("background", "square", "disc")
IGNORED = 255


def generate(count: int, seed: int, size: int = 32) -> tuple[Tensor, Tensor]:
    """Pictures (N, 1, size, size) and labels (N, size, size): one shape each, with an outline of a pixel."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size]
    labels = np.zeros((count, size, size), dtype=np.int64)
    for label in labels:
        kind, radius = rng.integers(1, len(CLASSES)), rng.integers(5, 10)
        across, down = rng.integers(10, size - 10, 2)
        offsets = np.stack([x - across, y - down])
        distance = np.abs(offsets).max(0) if kind == 1 else np.hypot(*offsets)
        label[distance < radius] = kind
        label[np.abs(distance - radius) < 0.5] = IGNORED
    bright = (labels != 0) + rng.normal(size=labels.shape)
    return torch.from_numpy(bright).float().unsqueeze(1), torch.from_numpy(labels)


def build_net() -> nn.Module:
    """Logits (N, 3, H, W) of pictures (N, 1, H, W)."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((1, 16), (16, 16), (16, 16)):
        layers += [nn.Conv2d(inputs, outputs, 5, padding=2), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(16, len(CLASSES), 1))


# The paper's margin of 10 is more than the logits of so small a net lie apart.
PARAMETERS = {"mbls": {"margin": 3.0}}


def train(pictures: Tensor, labels: Tensor, criterion_name: str, epochs: int) -> nn.Module:
    """A net that is trained with a criterion, one loss a pixel, averaged over the pixels that count."""
    torch.manual_seed(0)
    model = build_net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = build_criterion(criterion_name, ignore_index=IGNORED, **PARAMETERS.get(criterion_name, {}))
    for _ in range(epochs):
        for rows in torch.randperm(len(pictures)).split(8):
            counting = (labels[rows] != IGNORED).sum().clamp(min=1)
            loss = criterion(model(pictures[rows]), labels[rows]).sum() / counting
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def run(criterion: str, epochs: int, pictures: int = 64) -> CalibrationReport:
    """Train with a criterion, and measure on the pixels of other pictures."""
    model = train(*generate(pictures, seed=0), criterion, epochs)
    test_pictures, test_labels = generate(pictures // 2, seed=1)
    with torch.no_grad():
        logits = model(test_pictures).movedim(1, -1)
    counting = test_labels != IGNORED
    labels = np.array(CLASSES)[test_labels[counting].numpy()]
    ids = np.arange(len(labels)).astype(str)
    return measure_calibration(
        build_predictions(criterion, ids, labels, logits=logits[counting].numpy(), classes=CLASSES)
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare criteria on the same pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--criterion", nargs="+", default=["ce", "ls", "mbls"])
    parser.add_argument("--epochs", type=int, default=5)
    given = parser.parse_args(arguments)
    for name in given.criterion:
        report = run(name, given.epochs)
        print(f"{name:5} accuracy {report.accuracy:.4f}  ECE {report.ece:.4f}  NLL {report.nll:.4f}")


if __name__ == "__main__":
    main()
