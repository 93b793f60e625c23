"""Searches for a common preparation of pictures with which a model from elsewhere errs clearly less."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mpt_kernels.correct import is_top1_correct
from mptctl.data.exif import turn
from mptctl.data.loading.part import LoadPlan
from mptctl.data.pictures import Normalisation, channels_first, resize_and_crop
from mptctl.evaluation.pairing.paired_answers import flip_counts
from mptctl.evaluation.rates import Interval, Rate
from mptctl.evaluation.statistics import er_increase_interval, rate
from mptctl.names import Channels, Progress, tell_nobody
from mptctl.recipe import DataRecipe, differences
from mptctl.recipe.data import Exif, Interpolation

# Mean and std of common normalisations: torchvision, timm's "inception", levels 0 to 1, levels 0 to 255.
NORMALISATIONS = (
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ((0.5,) * 3, (0.5,) * 3),
    ((0.0,) * 3, (1.0,) * 3),
    ((0.0,) * 3, (1 / 255,) * 3),
)
# Side of the centre crop / shorter side of the resized picture: no crop, and torchvision's.
CROPS = (1.0, 0.875)
# Sides of the pictures that networks are commonly trained on, in pixels; larger ones than what is stored or
# named are not tried.
SIZES = (32, 64, 96, 128, 160, 192, 224, 256, 288)
# Most pictures to predict, pictures in a batch, and seconds after which no batch begins.
MAX_PICTURES, BATCH, SECONDS = 500, 50, 60.0
# Joint level of the intervals of all preparations.
LEVEL = 0.95


class Preparation(NamedTuple):
    """A way to prepare pictures.

    Attributes:
        data: size, crop, interpolation, normalisation and EXIF rotation.
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
        data, words = self.preparation.data, []
        if data.image_size != named.image_size:
            words.append(f"--size {data.image_size}")
            named = named.model_copy(update={"image_size": data.image_size, "eval_resize": None})
        for key, value, _ in differences(data, named, "data."):
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


@torch.no_grad()
def find_better_preparation(
    model: nn.Module, samples: Samples, *, any_size: bool, progress: Progress = tell_nobody
) -> BetterPreparation | None:
    """Find a common preparation of pictures with which a model errs clearly less than with the plan's.

    Clearly less: the interval of the change of the error, on the same pictures, lies below zero; all
    intervals hold jointly. One that is clearly worse drops out. The search takes at most `SECONDS` and one
    batch.

    Args:
        model: in evaluation mode, on the plan's device.
        samples: pictures to predict; at most `MAX_PICTURES` of them, drawn at random, are used.
        any_size: whether the model takes pictures of any size.
        progress: called with the number of predicted pictures.

    Returns:
        None if no other preparation is clearly better.

    Raises:
        DataError: a picture is missing or damaged.
    """
    chosen = np.random.default_rng(0).permutation(len(samples.rows))[:MAX_PICTURES]
    samples = samples._replace(rows=samples.rows[chosen], targets=samples.targets[chosen])
    named = Preparation(samples.plan.data)
    rotated = bool(samples.plan.split.manifest.is_turned[samples.rows].any())
    others = list_other_preparations(named.data, _other_sizes(samples) if any_size else [], rotated=rotated)
    level = 1 - (1 - LEVEL) / len(others)  # Bonferroni: so that all intervals hold jointly
    right = {preparation: np.empty(0, dtype=bool) for preparation in (named, *others)}
    deadline = time.monotonic() + SECONDS
    for start in range(0, len(chosen), samples.plan.batch_size):
        part = slice(start, start + samples.plan.batch_size)
        found = _predict(model, samples, list(right), part)
        right = {each: np.concatenate([right[each], found[each]]) for each in right}
        progress("pictures prepared in other ways", len(right[named]), len(chosen))
        for other in others:
            if other in right and _error_change(right[named], right[other], level)[0] > 0:
                del right[other]
        if len(right) == 1 or time.monotonic() > deadline:
            break
    better = [each for each in right if _error_change(right[named], right[each], level)[1] < 0]
    if not better:
        return None
    best = max(better, key=lambda preparation: np.count_nonzero(right[preparation]))
    return BetterPreparation(best, error=_error(right[best]), error_before=_error(right[named]))


def list_other_preparations(data: DataRecipe, sizes: Sequence[int], *, rotated: bool) -> list[Preparation]:
    """List common preparations that differ from the named one in one thing.

    That is normalisation with the order of channels, or crop, interpolation, size or EXIF rotation.

    Args:
        data: the preparation that the user names.
        sizes: to try, in pixels.
        rotated: whether pictures have an EXIF rotation, which is then tried both ways.
    """
    norms = [(data.mean, data.std), *NORMALISATIONS]
    others = [
        Preparation(data.model_copy(update={"mean": mean, "std": std}), reverses_channels)
        for (mean, std), reverses_channels in product(norms, (False, True))
    ]
    changes: list[dict[str, object]] = [
        {"eval_resize": None if crop == 1 else int(data.image_size / crop)} for crop in CROPS
    ]
    changes += [{"interpolation": interpolation} for interpolation in get_args(Interpolation)]
    changes += [{"image_size": size, "eval_resize": None} for size in sizes]
    changes += [{"exif": exif} for exif in get_args(Exif) if rotated]
    others += [Preparation(data.model_copy(update=keys)) for keys in changes]
    return [other for other in dict.fromkeys(others) if other != Preparation(data)]


def _other_sizes(samples: Samples) -> list[int]:
    """Sizes to try: `SIZES` up to the named one or what is stored, and what is stored."""
    manifest, named = samples.plan.split.manifest, samples.plan.data.image_size
    shorter = np.minimum(manifest.heights[samples.rows], manifest.widths[samples.rows])
    stored = int(np.median(shorter))
    sizes = {size for size in (*SIZES, stored) if size <= min(max(named, stored), max(SIZES))}
    return sorted(sizes - {named})


def _predict(
    model: nn.Module, samples: Samples, preparations: list[Preparation], part: slice
) -> dict[Preparation, NDArray[np.bool_]]:
    """Predict a slice of the samples; return for each preparation whether predictions are right, (n,)."""
    plan = samples.plan
    targets = torch.from_numpy(samples.targets[part]).to(plan.device)
    crops: dict[DataRecipe, list[Tensor]] = {_unnormalised(each.data): [] for each in preparations}
    for row in samples.rows[part].tolist():
        stored = torch.from_numpy(plan.split.picture(row))  # one at a time: a photograph takes many MB
        turned = turn(stored, plan.split.manifest.orientation(row))
        for crop, pictures in crops.items():
            picture = turned if crop.exif == "apply" else stored
            cropped = resize_and_crop(picture, crop.resized_side, crop.image_size, crop.interpolation)
            pictures.append(cropped)
    stacked = {crop: torch.stack(pictures).to(plan.device) for crop, pictures in crops.items()}
    right: dict[Preparation, NDArray[np.bool_]] = {}
    for each in preparations:
        images = channels_first(Normalisation(each.data, plan.device)(stacked[_unnormalised(each.data)]))
        images = images.flip(1) if each.reverses_channels else images
        try:
            right[each] = is_top1_correct(model(images), targets).cpu().numpy()
        except (RuntimeError, AssertionError):  # some networks take no pictures of some sizes
            if each.data.image_size == plan.data.image_size:
                raise
            right[each] = np.zeros(len(targets), dtype=bool)
    return right


def _unnormalised(data: DataRecipe) -> DataRecipe:
    """Copy a preparation with one normalisation; copies are equal where pictures are before it."""
    return data.model_copy(update={"mean": (0.0,) * 3, "std": (1.0,) * 3})


def _error_change(before: NDArray[np.bool_], after: NDArray[np.bool_], level: float) -> Interval:
    """Interval of the change of the error from one preparation to another.

    Args:
        before: (n,) which predictions are right with the one preparation.
        after: (n,) which predictions are right with the other, on the same pictures.
        level: interval level, such as 0.95.
    """
    return er_increase_interval(flip_counts(before, after), level)


def _error(right: NDArray[np.bool_]) -> Rate:
    """The error of predictions, given which of them are right."""
    return rate(int(np.count_nonzero(~right)), len(right))
