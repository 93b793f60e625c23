"""The callback in a real trainer of Lightning, on generated data."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from mptctl.integrations import FlipMonitor
from tests.integrations.small_arrays import INPUTS, NUMBERS, OLD_NUMBERS

lightning = pytest.importorskip(
    "lightning.pytorch", reason="lightning is not installed (make test-integrations)"
)
# Warnings of other people's libraries are no failures of ours.
pytestmark = pytest.mark.filterwarnings("default")


def network(returns: str) -> Any:
    class Network(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def training_step(self, batch: Any, index: int) -> Any:
            return torch.nn.functional.cross_entropy(self.scale * batch[0], batch[1])

        def validation_step(self, batch: Any, index: int) -> Any:
            logits = self.scale * batch[0]
            return {"dict": {"logits": logits}, "tensor": logits, "nothing": None}[returns]

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    return Network()


def fit(monitor: FlipMonitor, returns: str, tmp_path: Any, **keys: Any) -> Any:
    from mptctl.integrations.lightning import FlipCallback

    data = DataLoader(TensorDataset(torch.tensor(INPUTS), torch.tensor(NUMBERS)), batch_size=2)
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path, callbacks=[FlipCallback(monitor, **keys)],
    )  # fmt: skip
    trainer.fit(network(returns), data, data)
    return trainer


@pytest.mark.parametrize("returns", ["dict", "tensor"])
def test_flips_after_each_validation(returns: str, tmp_path: Any) -> None:
    said: list[str] = []
    monitor = FlipMonitor(NUMBERS, OLD_NUMBERS, old_classes=[0, 1], say=said.append)
    trainer = fit(monitor, returns, tmp_path, prefix="val/")
    assert [report.counts.negative_flips for report in monitor.history] == [1, 1]
    assert len(said) == 2
    assert trainer.callback_metrics["val/nfr"].item() == pytest.approx(0.25)
    assert trainer.callback_metrics["val/negative_flips"].item() == 1


def test_a_step_that_returns_nothing_is_said(tmp_path: Any) -> None:
    with pytest.raises(Exception, match="validation_step returned no predictions"):
        fit(FlipMonitor(NUMBERS, OLD_NUMBERS, say=None), "nothing", tmp_path)
