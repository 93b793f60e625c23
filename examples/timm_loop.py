"""A model of timm trained with the fused loss in a loop of one's own, its flips counted after each epoch.

    python examples/timm_loop.py

An old model knows the digits 0 to 4; its replacement learns all ten, and distils from the old model and from an
independent one of all ten (the reference). Needs timm and scikit-learn, and a minute on two cores.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from mpt_kernels import MPTLoss
from mptctl.integrations import FlipMonitor

OLD_CLASSES, CLASSES = 5, 10
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of logits, target, pictures


def create_timm(num_classes: int) -> nn.Module:
    """A small network of timm for grey pictures, untrained."""
    import timm

    return timm.create_model("resnet10t", num_classes=num_classes, in_chans=1)


def digits() -> tuple[Tensor, Tensor]:
    """(N, 1, 32, 32) pictures and (N,) labels: scikit-learn's digits, each pixel four times as wide and high."""
    found = load_digits()
    pictures = torch.tensor(found.images, dtype=torch.float32)[:, None] / 8 - 1
    return pictures.repeat_interleave(4, 2).repeat_interleave(4, 3), torch.tensor(found.target)


def answers(model: nn.Module, pictures: Tensor) -> Tensor:
    """(N, C) logits, in evaluation mode."""
    model.eval()
    with torch.inference_mode():
        return torch.cat([model(batch) for batch in pictures.split(256)])


def train(
    model: nn.Module,
    pictures: Tensor,
    labels: Tensor,
    loss: Loss,
    *,
    epochs: int,
    after_epoch: Callable[[], object] = lambda: None,
) -> nn.Module:
    """The loop that you have already: only the line of the loss is another one."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    for epoch in range(epochs):
        model.train()
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        for rows in order.split(64)[:-1]:
            optimizer.zero_grad()
            loss(model(pictures[rows]), labels[rows], pictures[rows]).backward()
            optimizer.step()
        after_epoch()
    return model


def main(create: Callable[[int], nn.Module] = create_timm, epochs: int = 3) -> FlipMonitor:
    """Train the old model, the reference and the replacement; the monitor holds one report an epoch."""
    torch.manual_seed(0)
    pictures, labels = digits()
    held_out = torch.arange(len(labels)) % 4 == 0
    seen, seen_labels = pictures[~held_out], labels[~held_out]
    known = seen_labels < OLD_CLASSES

    cross_entropy = nn.CrossEntropyLoss()

    def plain(logits: Tensor, target: Tensor, _: Tensor) -> Tensor:
        found: Tensor = cross_entropy(logits, target)
        return found

    old = train(create(OLD_CLASSES), seen[known], seen_labels[known], plain, epochs=epochs)
    ref = train(create(CLASSES), seen, seen_labels, plain, epochs=epochs)

    # The old model's answers are stored once; from then on flips are counted against them.
    monitor = FlipMonitor(labels[held_out], answers(old, pictures[held_out]))
    criterion = MPTLoss(num_old=OLD_CLASSES, k=2.0, distance="kl")

    def mpt(logits: Tensor, target: Tensor, batch: Tensor) -> Tensor:
        return criterion(logits, target, answers(old, batch), answers(ref, batch)).loss

    student = create(CLASSES)
    train(
        student,
        seen,
        seen_labels,
        mpt,
        epochs=epochs,
        after_epoch=lambda: monitor(answers(student, pictures[held_out])),
    )
    return monitor


if __name__ == "__main__":
    main()
