"""`FlipCallback`: counts flips after each validation of a Lightning trainer, by a `FlipMonitor`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from mptctl.errors import UsageError
from mptctl.integrations.flip_monitor import FlipMonitor
from mptctl.machine.facts import has_package


def _import_callback_class() -> Any:
    """Import Lightning's class `Callback`, from the package `lightning` or `pytorch_lightning`.

    Raises:
        ModuleNotFoundError: neither is installed.
    """
    for package, module in (("lightning", "lightning.pytorch"), ("pytorch_lightning", "pytorch_lightning")):
        if has_package(package):
            return import_module(module).Callback
    raise ModuleNotFoundError(
        "mptctl.integrations.lightning: Lightning is not installed; pip install lightning", name="lightning"
    )


class FlipCallback(_import_callback_class()):  # type: ignore[misc]  # mypy does not know the class
    """Counts flips after each validation of a trainer, and logs them as `nfr`, `negative_flips` and so on.

    The trainer's sanity check is not counted.

    Args:
        monitor: the monitor, with labels and the old model's predictions.
        answers: function from the result of `validation_step` and its batch to (B, C) logits or (B,)
            predictions. Default: the result itself, or its entry `logits`, `preds` or `pred`.
        ids: function of the same arguments to the (B,) names of the samples; needed with several processes.
            Default: batches come in the order of the monitor's labels.
        prefix: put before each name in the log, such as ``val/``.
    """

    def __init__(
        self,
        monitor: FlipMonitor,
        answers: Callable[[Any, Any], Any] | None = None,
        ids: Callable[[Any, Any], Any] | None = None,
        prefix: str = "",
    ) -> None:
        super().__init__()
        self.monitor = monitor
        self.answers = answers or _find_predictions
        self.ids = ids
        self.prefix = prefix

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin a validation."""
        self.monitor.reset()

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Give a batch's predictions to the monitor."""
        if trainer.sanity_checking:
            return
        ids = None if self.ids is None else self.ids(outputs, batch)
        self.monitor.update(self.answers(outputs, batch), ids)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Count flips and log them."""
        if trainer.sanity_checking:
            return
        self.monitor.finish()
        # Every process has counted the predictions of all processes, so the log needs no averaging.
        metrics = {f"{self.prefix}{name}": float(value) for name, value in self.monitor.metrics().items()}
        pl_module.log_dict(metrics, rank_zero_only=True)


def _find_predictions(outputs: Any, batch: Any) -> Any:
    """Find the predictions in the result of `validation_step`: the result, or an entry of a usual name.

    Raises:
        UsageError: there are none.
    """
    if not isinstance(outputs, dict):
        if outputs is None or getattr(outputs, "ndim", 1) == 0:
            raise UsageError(
                "FlipCallback: validation_step returned no predictions; let it return the logits, or give "
                "answers="
            )
        return outputs
    names = [name for name in ("logits", "preds", "pred") if name in outputs]
    if not names:
        raise UsageError(
            f"FlipCallback: validation_step returned {', '.join(map(str, outputs))}, and none of logits, "
            "preds, pred; give answers="
        )
    return outputs[names[0]]
