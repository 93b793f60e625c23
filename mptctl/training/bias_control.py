"""Moves k during a run so that NFR stays within a budget of flips (`--max-nfr`).

NFR falls about exponentially as k grows. NFR also falls by itself as the learning rate falls. So after each
epoch of the run's third quarter, k is moved in proportion to log(expected NFR at the run's end / budget).
This is dual ascent, with k as the multiplier of the budget. The expected NFR is the epoch's NFR times the
part of its flips that will be left at the end. That part is read off the log of the reference, which was
trained by the same schedule: its error on old classes falls as flips do. See docs/research/budget.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from mptctl.errors import UsageError
from mptctl.evaluation.bias.choice import Budget
from mptctl.methods.rows import last_quarter_start, nfr_budget
from mptctl.models.metrics_log import read_metrics
from mptctl.models.records import BiasEpoch, BiasPath
from mptctl.models.run_folder import RunDir
from mptctl.recipe import MethodRecipe

# Largest k that a run is moved to: the figures of the paper end at 8.
LARGEST_K = 8.0
# Steepness is the fall of log NFR when k rises by 1; on drawn characters it was 0.6 to 1.1. A run takes the
# median of STEEPNESS and of the values measured at its own changes of k, clipped to STEEPNESS_RANGE.
STEEPNESS = 0.8
STEEPNESS_RANGE = (0.25, 1.5)
# Largest change of k in an epoch.
LONGEST_MOVE = 1.0
# Steepness is not measured at a smaller change of k, where sampling noise outweighs the effect.
TELLING_MOVE = 0.1
# Fewer epochs have no quarter in which k could be moved.
LEAST_EPOCHS = 4


@dataclass(frozen=True)
class BiasControl:
    """The rule by which k moves: a pure function of the path, so that a resumed run is bitwise the same.

    Attributes:
        first: k until the rule first moves it.
        most_flips: largest number of flips on the validation part that shows the budget to be kept, at the
            recipe's confidence.
        epochs: number of epochs of the whole run.
    """

    first: float
    most_flips: int
    epochs: int

    @property
    def fixed_from(self) -> int:
        """The epoch, counted from 0, from which on k is fixed; the best epoch is chosen from there on."""
        return last_quarter_start(self.epochs)

    def next_k(self, path: BiasPath) -> float:
        """The k (bias on the logits of new classes) of the epoch that follows a path."""
        done = len(path.epochs)
        if not done:
            return self.first
        last = path.epochs[-1].k
        if not self.epochs // 2 <= done < self.fixed_from:
            return last
        excess = self._log_final_flips(path, done - 1) - math.log(max(self.most_flips, 0.5))
        move = _clip(excess / self._steepness(path), -LONGEST_MOVE, LONGEST_MOVE)
        return _clip(last + move, 0.0, LARGEST_K)

    def extend(self, path: BiasPath, flips: int) -> BiasPath:
        """Return the path with one more epoch, which ended with ``flips`` on the validation part."""
        epoch = BiasEpoch(k=self.next_k(path), flips=flips)
        return path.model_copy(update={"epochs": (*path.epochs, epoch)})

    def _log_final_flips(self, path: BiasPath, epoch: int) -> float:
        """The logarithm of the flips at the run's end, as predicted from the flips after one epoch."""
        return math.log(max(path.epochs[epoch].flips, 0.5) * path.left[epoch])

    def _steepness(self, path: BiasPath) -> float:
        """The fall of log flips when k rises by 1: the clipped median of `STEEPNESS` and this run's moves."""
        measured = [STEEPNESS]
        for epoch in range(self.epochs // 2, len(path.epochs)):
            moved = path.epochs[epoch].k - path.epochs[epoch - 1].k
            if abs(moved) > TELLING_MOVE:
                fall = self._log_final_flips(path, epoch - 1) - self._log_final_flips(path, epoch)
                measured.append(fall / moved)
        return _clip(median(measured), *STEEPNESS_RANGE)


def _clip(value: float, low: float, high: float) -> float:
    return min(high, max(low, value))


def plan_bias_control(
    recipe: MethodRecipe, samples_old: int, epochs: int, *, has_old_model: bool
) -> BiasControl | None:
    """Make the rule by which k moves in a run; None for a method without a budget of flips.

    Args:
        recipe: the method, with its budget.
        samples_old: number of validation samples of old classes.
        epochs: number of epochs of the whole run.
        has_old_model: whether the run is given an old model, against which flips are counted.

    Raises:
        UsageError: no old model, no validation picture of an old class, too few to show that the budget is
            kept, too few epochs, or a first k above `LARGEST_K`.
    """
    limit = nfr_budget(recipe)
    if limit is None:
        return None
    flag = f"--max-nfr {100 * limit:g}"
    if not has_old_model:
        raise UsageError(f"{flag}: counts flips against the old model; name it with --old RUN")
    if not samples_old:
        raise UsageError(
            f"{flag}: is kept on validation pictures, and the split has none of old classes; split again "
            "with --val-fraction 0.1"
        )
    if epochs < LEAST_EPOCHS:
        raise UsageError(
            f"{flag}: moves k in the third quarter of the epochs, and {epochs} have none; set "
            f"optim.epochs to at least {LEAST_EPOCHS}, or give --k"
        )
    if recipe.k > LARGEST_K:
        raise UsageError(f"{flag}: keeps k within 0 and {LARGEST_K:g}, got {recipe.k:g}; lower method.k")
    # `adjust` will choose among the last epochs (Bonferroni's correction).
    candidates = epochs - last_quarter_start(epochs)
    budget = Budget(limit, confidence=recipe.confidence, epochs=candidates)
    return BiasControl(recipe.k, budget.most_flips(samples_old, series=1), epochs)


def predict_decline(references: Sequence[Path], epochs: int) -> tuple[BiasPath, list[str]]:
    """Predict the part of each epoch's flips that will be left at the end of a run, from the reference's log.

    Without a log every part is 1, and there is a warning.

    Args:
        references: checkpoints of the references; the log beside the first is read.
        epochs: number of epochs of the run to come.

    Returns:
        A path without epochs that holds the parts (fractions up to 1, one an epoch), and warnings.
    """
    lines = read_metrics(RunDir(references[0].resolve().parent).metrics) if references else []
    validated = [line for line in lines if line.event == "epoch" and line.val_errors_old is not None]
    if not validated:
        note = (
            "warning: --max-nfr: there is no log of the reference's epochs to foresee by how flips fall; "
            "NFR will be lower, and the error higher, than they need be"
        )
        return BiasPath(left=(1.0,) * epochs), [note]
    errors = [max(line.val_errors_old or 0, 0.5) for line in validated]
    # The reference may have another number of epochs: the same fraction of its run, rounded up to an epoch.
    same_progress = [((epoch + 1) * len(errors) - 1) // epochs for epoch in range(epochs)]
    return BiasPath(left=tuple(min(1.0, errors[-1] / errors[of_ref]) for of_ref in same_progress)), []
