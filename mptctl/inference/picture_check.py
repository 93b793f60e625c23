"""Searches for a common preparation of pictures with which a model from elsewhere errs clearly less."""

from __future__ import annotations

import json
import shlex
import time
from itertools import product
from typing import NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mpt_kernels.correct import is_top1_correct
from mptctl.data.loading.part import LoadPlan
from mptctl.data.pictures import Normalisation, channels_first, resize_and_crop
from mptctl.evaluation.rates import Counts, Interval, Rate
from mptctl.evaluation.statistics import er_increase_interval, rate
from mptctl.names import Channels, Progress, tell_nobody
from mptctl.recipe import DataRecipe, differences
from mptctl.recipe.data import Interpolation

# Mean and std of common normalisations: torchvision, timm's "inception", levels 0 to 1, levels 0 to 255.
NORMALISATIONS = (
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ((0.5,) * 3, (0.5,) * 3),
    ((0.0,) * 3, (1.0,) * 3),
    ((0.0,) * 3, (1 / 255,) * 3),
)
# Side of the centre crop / shorter side of the resized picture: no crop, and torchvision's.
CROPS = (1.0, 0.875)
# Most pictures to predict, pictures in a batch, and seconds after which no batch begins. A few pictures show
# a wrong normalisation; a wrong interpolation may take many.
MAX_PICTURES, BATCH, SECONDS = 5000, 50, 60.0
# Joint interval level of all intervals in a round.
LEVEL = 0.95
# A round corrects one fault of the preparation, and there may be several.
ROUNDS = 3


class Preparation(NamedTuple):
    """A way to prepare pictures.

    Attributes:
        data: size, crop, interpolation and normalisation.
        reverses_channels: the channels are reversed after normalisation, from RGB to BGR or back.
    """

    data: DataRecipe
    reverses_channels: bool = False


class BetterPreparation(NamedTuple):
    """A preparation with which a model errs clearly less.

    Attributes:
        preparation: the better preparation.
        error: of the model with the better preparation.
        error_before: of the model with the preparation that the user names, on the same pictures.
    """

    preparation: Preparation
    error: Rate
    error_before: Rate

    def flags(self, named: DataRecipe, channels: Channels) -> str:
        """The options of `mptctl import` that choose the better preparation.

        Args:
            named: the preparation that the user names.
            channels: the order of channels that the user names.
        """
        words: list[str] = []
        for key, value, _ in differences(self.preparation.data, named, "data."):
            text = json.dumps(value, separators=(",", ":"))
            words.append(f"--set {shlex.quote(f'{key}={text}')}")
        if self.preparation.reverses_channels:
            words.append("--channels " + ("bgr" if channels == "rgb" else "rgb"))
        return " ".join(words)


class Samples(NamedTuple):
    """Validation pictures and their true classes.

    Attributes:
        plan: reads the pictures; its recipe is the preparation that the user names.
        rows: (n,) rows of the manifest.
        targets: (n,) column of the true class among the model's logits.
    """

    plan: LoadPlan
    rows: NDArray[np.int64]
    targets: NDArray[np.int64]


def find_better_preparation(
    model: nn.Module, samples: Samples, progress: Progress = tell_nobody
) -> BetterPreparation | None:
    """Find a common preparation of pictures with which a model errs clearly less than with the plan's.

    Clearly less: the interval of the change of the error, on the same pictures, lies below zero. All
    intervals of a round hold jointly. The search takes at most `SECONDS` and one batch.

    Args:
        model: in evaluation mode, on the plan's device.
        samples: pictures to predict; at most `MAX_PICTURES` of them, drawn at random, are used.
        progress: called with the number of predicted pictures.

    Returns:
        None if no other preparation is clearly better.

    Raises:
        DataError: a picture is missing or damaged.
    """
    chosen = np.random.default_rng(0).permutation(len(samples.rows))[:MAX_PICTURES]
    samples = samples._replace(rows=samples.rows[chosen], targets=samples.targets[chosen])
    race = _Race(model, samples, time.monotonic() + SECONDS, progress)
    best: BetterPreparation | None = None
    current = Preparation(samples.plan.data)
    for _ in range(ROUNDS):
        better = race.run(current, list_other_preparations(current))
        if better is None:
            break
        best = better if best is None else better._replace(error_before=best.error_before)
        current = better.preparation
        if time.monotonic() > race.deadline:
            break
    return best


def list_other_preparations(current: Preparation) -> list[Preparation]:
    """List common preparations with another normalisation, order of channels, crop or interpolation."""
    data = current.data
    norms = [(data.mean, data.std), *NORMALISATIONS]
    others = [
        Preparation(data.model_copy(update={"mean": mean, "std": std}), reverses_channels)
        for (mean, std), reverses_channels in product(
            norms, (current.reverses_channels, not current.reverses_channels)
        )
    ]
    crops = [{"eval_resize": None if crop == 1 else int(data.image_size / crop)} for crop in CROPS]
    resizes = [{"interpolation": interpolation} for interpolation in get_args(Interpolation)]
    others += [current._replace(data=data.model_copy(update=keys)) for keys in (*crops, *resizes)]
    return [other for other in dict.fromkeys(others) if other != current]


class _Race(NamedTuple):
    """Compares preparations batch by batch; one that is clearly worse than the current one drops out.

    Attributes:
        model: the model, in evaluation mode.
        samples: pictures in the order of prediction.
        deadline: time of the monotonic clock after which no batch begins.
        progress: called with the number of predicted pictures.
    """

    model: nn.Module
    samples: Samples
    deadline: float
    progress: Progress

    def run(self, current: Preparation, others: list[Preparation]) -> BetterPreparation | None:
        """Find the preparation with the fewest errors among those clearly better than the current one.

        Returns:
            None if none is clearly better.
        """
        level = 1 - (1 - LEVEL) / len(others)  # Bonferroni: so that all intervals hold jointly
        right = {preparation: np.empty(0, dtype=bool) for preparation in (current, *others)}
        total = len(self.samples.rows)
        size = self.samples.plan.batch_size
        for start in range(0, total, size):
            is_right = self._predict(list(right), slice(start, start + size))
            # A preparation with the same first batch as the current one drops out; later that may be chance.
            remaining = right if start else is_right
            right = {
                preparation: np.concatenate(
                    [right[preparation], is_right.get(preparation, is_right[current])]
                )
                for preparation in remaining
            }
            self.progress("pictures prepared in other ways", len(right[current]), total)
            for preparation in others:
                if preparation in right and _error_change(right[current], right[preparation], level)[0] > 0:
                    del right[preparation]
            if len(right) == 1 or time.monotonic() > self.deadline:
                break
        changes = {
            preparation: _error_change(right[current], right[preparation], level)
            for preparation in right
            if preparation != current
        }
        better = [preparation for preparation, (_, upper) in changes.items() if upper < 0]
        if not better:
            return None
        best = max(better, key=lambda preparation: np.count_nonzero(right[preparation]))
        return BetterPreparation(best, error=_error(right[best]), error_before=_error(right[current]))

    @torch.no_grad()
    def _predict(self, preparations: list[Preparation], part: slice) -> dict[Preparation, NDArray[np.bool_]]:
        """Predict a slice of the samples; return for each preparation whether predictions are right, (n,).

        A preparation that gives the same pictures as the first one is left out.
        """
        plan, device = self.samples.plan, self.samples.plan.device
        targets = torch.from_numpy(self.samples.targets[part]).to(device)
        crops: dict[tuple[int, Interpolation], list[Tensor]] = {
            (data.resized_side, data.interpolation): [] for data, _ in preparations
        }
        for row in self.samples.rows[part].tolist():
            stored = plan.picture(row)  # one at a time: a photograph takes many MB
            for (side, interpolation), pictures in crops.items():
                pictures.append(resize_and_crop(stored, side, plan.data.image_size, interpolation))
        stacked = {key: torch.stack(pictures).to(device) for key, pictures in crops.items()}
        first: Tensor | None = None
        right: dict[Preparation, NDArray[np.bool_]] = {}
        for data, reverses_channels in preparations:
            batch = stacked[data.resized_side, data.interpolation]
            images = channels_first(Normalisation(data, device)(batch))
            images = images.flip(1) if reverses_channels else images
            if first is None:
                first = images
            elif torch.equal(images, first):
                continue
            right[Preparation(data, reverses_channels)] = (
                is_top1_correct(self.model(images), targets).cpu().numpy()
            )
        return right


def _error_change(before: NDArray[np.bool_], after: NDArray[np.bool_], level: float) -> Interval:
    """Interval of the change of the error from one preparation to another.

    Args:
        before: (n,) which predictions are right with the one preparation.
        after: (n,) which predictions are right with the other, on the same pictures.
        level: interval level, such as 0.95.
    """
    both, lost = np.count_nonzero(before & after), np.count_nonzero(before & ~after)
    gained = np.count_nonzero(after & ~before)
    table = Counts(
        both_right=both,
        negative_flips=lost,
        positive_flips=gained,
        both_wrong=len(before) - both - lost - gained,
    )
    return er_increase_interval(table, level)


def _error(right: NDArray[np.bool_]) -> Rate:
    """The error of predictions, given which of them are right."""
    return rate(int(np.count_nonzero(~right)), len(right))
