"""`FlipCallback`: a `FlipMonitor` in a trainer of Lightning."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from mptctl.errors import UsageError
from mptctl.integrations.flip_monitor import FlipMonitor
from mptctl.machine.facts import has_package


def _callback() -> Any:
    """The class that a trainer takes: of the package `lightning`, or of its older form."""
    for package, module in (("lightning", "lightning.pytorch"), ("pytorch_lightning", "pytorch_lightning")):
        if has_package(package):
            return import_module(module).Callback
    raise ModuleNotFoundError(
        "mptctl.integrations.lightning: Lightning is not installed; pip install lightning", name="lightning"
    )


class FlipCallback(_callback()):  # type: ignore[misc]  # known when Lightning is there
    """Counts flips after each validation of a trainer, and logs them under `nfr`, `negative_flips`, ...

    The trainer's sanity check is passed over.

    Args:
        monitor: with the stored answers.
        answers: of what `validation_step` returned and its batch, the (B, C) logits or (B,) answers; default:
            what it returned, or its `logits`, `preds` or `pred`.
        ids: of the same, the (B,) names of the samples; needed in several processes. Default: the stored
            order.
        prefix: before each name in the log, such as ``val/``.
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
        self.answers = answers or _returned
        self.ids = ids
        self.prefix = prefix

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self.monitor.reset()

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if trainer.sanity_checking:
            return
        ids = None if self.ids is None else self.ids(outputs, batch)
        self.monitor.update(self.answers(outputs, batch), ids)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        self.monitor.finish()
        # Every process has counted the answers of all of them, so that nothing is left to be averaged.
        found = {f"{self.prefix}{name}": float(value) for name, value in self.monitor.metrics().items()}
        pl_module.log_dict(found, rank_zero_only=True)


def _returned(outputs: Any, batch: Any) -> Any:
    """The answers that `validation_step` returned, itself or under a usual name."""
    if not isinstance(outputs, dict):
        if outputs is None or getattr(outputs, "ndim", 1) == 0:
            raise UsageError(
                "FlipCallback: validation_step returned no predictions; let it return the logits, or give "
                "answers="
            )
        return outputs
    found = [name for name in ("logits", "preds", "pred") if name in outputs]
    if not found:
        raise UsageError(
            f"FlipCallback: validation_step returned {', '.join(map(str, outputs))}, and none of logits, "
            "preds, pred; give answers="
        )
    return outputs[found[0]]
