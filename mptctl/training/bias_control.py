"""A budget of flips in place of k: once an epoch k is moved towards the flips that it allows.

NFR falls as k grows, about exponentially, and falls on by itself as the learning rate does. So in the third
quarter of a run k is moved on the logarithm of NFR (dual ascent; k is the multiplier of the budget), of the
NFR that is expected at the run's end. How much of an epoch's flips the end leaves is read off the reference's
log: it was trained by the same schedule, and its error on old classes falls as flips do.
docs/research/budget.md has more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from mptctl.errors import UsageError
from mptctl.evaluation.bias.choice import Budget
from mptctl.methods.rows import budget_of, last_quarter
from mptctl.models.metrics_log import read_metrics
from mptctl.models.records import BiasEpoch, BiasPath
from mptctl.models.run_folder import RunDir
from mptctl.recipe import MethodRecipe

# Largest k that a run is moved to: the figures of the paper end at 8.
LARGEST_K = 8.0
# Steepness is the fall of log NFR when k rises by 1; on drawn characters it was 0.6 to 1.1. A run takes the
# median of STEEPNESS and of those that its moves have shown, clipped to BELIEVED. LONGEST_MOVE is the largest
# change of k in an epoch.
STEEPNESS = 0.8
BELIEVED = (0.25, 1.5)
LONGEST_MOVE = 1.0
# A smaller change of k tells nothing of the steepness.
TELLING_MOVE = 0.1
# Fewer epochs have no quarter in which k could be moved.
LEAST_EPOCHS = 4


@dataclass(frozen=True)
class BiasControl:
    """The rule by which k moves: a pure function of the path, so that a resumed run is the same to the bit.

    Attributes:
        first: k until it is moved.
        most_flips: largest number of flips on the validation part that shows the budget kept, at the
            confidence that was asked for.
        epochs: of the whole run.
    """

    first: float
    most_flips: int
    epochs: int

    @property
    def fixed_from(self) -> int:
        """First epoch, counted from 0, of those in which k stays; one of them is the best."""
        return last_quarter(self.epochs)

    def k(self, path: BiasPath) -> float:
        """The bias on the logits of new classes in the epoch after a path."""
        done = len(path.epochs)
        if not done:
            return self.first
        last = path.epochs[-1].k
        if not self.epochs // 2 <= done < self.fixed_from:
            return last
        excess = self._log_flips(path, done - 1) - math.log(max(self.most_flips, 0.5))
        move = excess / self._steepness(path)
        return min(LARGEST_K, max(0.0, last + max(-LONGEST_MOVE, min(LONGEST_MOVE, move))))

    def after(self, path: BiasPath, flips: int) -> BiasPath:
        """The path with one more epoch, after which the validation part has so many flips."""
        return path.model_copy(update={"epochs": (*path.epochs, BiasEpoch(k=self.k(path), flips=flips))})

    def _log_flips(self, path: BiasPath, epoch: int) -> float:
        """The logarithm of the flips at the run's end that one epoch predicts."""
        return math.log(max(path.epochs[epoch].flips, 0.5) * path.left[epoch])

    def _steepness(self, path: BiasPath) -> float:
        """The fall of log flips when k rises by 1: the median over this run's moves and `STEEPNESS`."""
        shown = [STEEPNESS]
        for epoch in range(self.epochs // 2, len(path.epochs)):
            moved = path.epochs[epoch].k - path.epochs[epoch - 1].k
            if abs(moved) > TELLING_MOVE:
                fall = self._log_flips(path, epoch - 1) - self._log_flips(path, epoch)
                shown.append(fall / moved)
        low, high = BELIEVED
        return min(high, max(low, median(shown)))


def bias_control(
    recipe: MethodRecipe, samples_old: int, epochs: int, *, known_old: bool
) -> BiasControl | None:
    """The rule by which k moves in a run; None where it does not move.

    Args:
        recipe: the method, with its budget.
        samples_old: validation samples of old classes.
        epochs: of the whole run.
        known_old: an old model is given, against which flips are counted.

    Raises:
        UsageError: no old model, no validation picture of an old class, too few to show that the budget is
            kept, or too few epochs.
    """
    limit = budget_of(recipe)
    if limit is None:
        return None
    budget = f"--max-nfr {100 * limit:g}"
    if not known_old:
        raise UsageError(f"{budget}: counts flips against the old model; name it with --old RUN")
    if not samples_old:
        raise UsageError(
            f"{budget}: is kept on validation pictures, and the split has none of old classes; split again "
            "with --val-fraction 0.1"
        )
    if epochs < LEAST_EPOCHS:
        raise UsageError(
            f"{budget}: moves k in the third quarter of the epochs, and {epochs} have none; set "
            f"optim.epochs to at least {LEAST_EPOCHS}, or give --k"
        )
    # As `adjust` will hold it: the better of two walks, over the best of the last epochs.
    candidates = epochs - last_quarter(epochs)
    kept = Budget(limit, confidence=recipe.confidence, epochs=candidates)
    return BiasControl(recipe.k, kept.most_flips(samples_old, series=2), epochs)


def expected_decline(references: Sequence[Path], epochs: int) -> tuple[BiasPath, list[str]]:
    """Predict the part of each epoch's flips that will be left at the end of a run, from the reference's log.

    Args:
        references: checkpoints of the references; the log beside the first is read.
        epochs: of the run to come.

    Returns:
        A path without epochs that holds these parts, and warnings.
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
    # The last of the reference's epochs that begins before the same part of its run is done.
    places = [((epoch + 1) * len(errors) - 1) // epochs for epoch in range(epochs)]
    return BiasPath(left=tuple(min(1.0, errors[-1] / errors[place]) for place in places)), []
