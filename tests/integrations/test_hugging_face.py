"""`FlipMonitor.compute_metrics` in a real trainer of Hugging Face, on generated data."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mptctl.integrations import FlipMonitor
from tests.integrations.small_arrays import INPUTS, NUMBERS, OLD_NUMBERS

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed (make test-integrations)"
)
pytest.importorskip("accelerate", reason="accelerate is not installed (make test-integrations)")
# Warnings of other people's libraries are no failures of ours.
pytestmark = pytest.mark.filterwarnings("default")


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.scale * inputs
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def test_flips_are_metrics_of_each_evaluation(tmp_path: Any) -> None:
    said: list[str] = []
    monitor = FlipMonitor(NUMBERS, OLD_NUMBERS, old_classes=[0, 1], say=said.append)
    data = [
        {"inputs": row, "labels": label} for row, label in zip(torch.tensor(INPUTS), NUMBERS, strict=True)
    ]
    settings = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=2, per_device_eval_batch_size=2, eval_strategy="epoch",
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=Network(), args=settings, train_dataset=data, eval_dataset=data,
        compute_metrics=monitor.compute_metrics,
    )  # fmt: skip
    trainer.train()
    assert [report.counts.negative_flips for report in monitor.history] == [1, 1]
    assert len(said) == 2
    assert trainer.evaluate()["eval_nfr"] == 0.25
