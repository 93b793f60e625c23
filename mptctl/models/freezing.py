"""Freezes weights and batch-norm statistics by the patterns of the recipe key `model.freeze`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mptctl.errors import UsageError
from mptctl.files.explained import nearest

# Pattern for the running statistics of all batch norms.
NORM_STATISTICS = "norm-statistics"


def freeze(model: nn.Module, patterns: Sequence[str], arch: str) -> None:
    """Set ``requires_grad`` to False for the weights that patterns match, in place.

    Args:
        model: the network.
        patterns: names of weights or of modules, with * and ?. `NORM_STATISTICS` is only checked here; see
            `freeze_statistics`.
        arch: its architecture's name, for messages.

    Raises:
        UsageError: a pattern matches nothing, or nothing is left to train.
    """
    weights = dict(model.named_parameters())
    for pattern in patterns:
        if pattern == NORM_STATISTICS:
            if not _batch_norms(model):
                raise UsageError(f"model.freeze {pattern}: {arch} has no batch norms; leave it out")
            continue
        matched = [name for name in weights if _matches(name, pattern)]
        if not matched:
            names = [*(name for name, _ in model.named_children()), NORM_STATISTICS]
            raise UsageError(
                f"model.freeze {pattern}: no weight or module of {arch} is so called{nearest(pattern, names)}"
            )
        for name in matched:
            weights[name].requires_grad_(False)
    if not any(weight.requires_grad for weight in weights.values()):
        raise UsageError(f"model.freeze: leaves nothing of {arch} to train; leave a pattern out")


def freeze_statistics(model: nn.Module, patterns: Sequence[str]) -> None:
    """Put frozen batch norms into evaluation mode, in place, so that their running statistics stay.

    With `NORM_STATISTICS` among the patterns all batch norms are frozen, else those whose weights all are.
    """
    for norm in _batch_norms(model):
        weights = list(norm.parameters())
        has_frozen_weights = bool(weights) and not any(weight.requires_grad for weight in weights)
        if NORM_STATISTICS in patterns or has_frozen_weights:
            norm.eval()


def _batch_norms(model: nn.Module) -> list[nn.Module]:
    """List the batch-norm layers of a network."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def _matches(name: str, pattern: str) -> bool:
    """Tell whether a pattern names a weight, or a module that contains the weight."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
