"""The search for a common way to prepare pictures in which a model from elsewhere errs clearly less."""

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
from mptctl.evaluation.statistics import error_difference, rate
from mptctl.names import Channels, Progress, tell_nobody
from mptctl.recipe import DataRecipe, differences
from mptctl.recipe.data import Interpolation

# Mean and deviation: of torchvision, of timm's "inception", of levels left at 0 to 1, and at 0 to 255.
NORMALISATIONS = (
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ((0.5,) * 3, (0.5,) * 3),
    ((0.0,) * 3, (1.0,) * 3),
    ((0.0,) * 3, (1 / 255,) * 3),
)
# Side of the centre crop over the shorter side of the resized picture: no crop, and torchvision's.
CROPS = (1.0, 0.875)
# At most so many pictures, in batches, for about so long. A wrong normalisation shows on a few pictures; a
# wrong interpolation may need many.
MOST_PICTURES, BATCH, SECONDS = 5000, 50, 60.0
# Level at which all intervals of a round hold together.
LEVEL = 0.95
# Several things can be wrong at once; each round corrects one.
ROUNDS = 3


class Way(NamedTuple):
    """A way to prepare pictures.

    Attributes:
        data: size, crop, interpolation and normalisation.
        turned: the channels are reversed after normalisation, from RGB to BGR or back.
    """

    data: DataRecipe
    turned: bool = False


class BetterWay(NamedTuple):
    """A way to prepare pictures in which a model errs clearly less.

    Attributes:
        way: that is better.
        error: of the model with it.
        error_before: of the model with the way that was named, on the same pictures.
    """

    way: Way
    error: Rate
    error_before: Rate

    def flags(self, named: DataRecipe, channels: Channels) -> str:
        """Options of `mptctl import` that choose this way.

        Args:
            named: the way that was named.
            channels: the order of the channels that was named.
        """
        words: list[str] = []
        for key, value, _ in differences(self.way.data, named, "data."):
            text = json.dumps(value, separators=(",", ":"))
            words.append(f"--set {shlex.quote(f'{key}={text}')}")
        if self.way.turned:
            words.append("--channels " + ("bgr" if channels == "rgb" else "rgb"))
        return " ".join(words)


class Samples(NamedTuple):
    """Held-out pictures and their right answers.

    Attributes:
        plan: of the part that holds them.
        rows: (n,) of the manifest.
        targets: (n,) column of the right answer among the model's logits.
    """

    plan: LoadPlan
    rows: NDArray[np.int64]
    targets: NDArray[np.int64]


def find_better_way(model: nn.Module, samples: Samples, progress: Progress = tell_nobody) -> BetterWay | None:
    """Find a common way to prepare pictures with which a model errs clearly less than with the plan's.

    Clearly: the interval of the difference of errors on the same pictures lies below zero; the intervals of
    all ways of a round hold together. Takes at most a minute and a batch.

    Args:
        model: in evaluation mode, on the plan's device.
        samples: to be answered.
        progress: told how many pictures are answered.

    Returns:
        None where no other way is clearly better.

    Raises:
        DataError: a picture is gone or damaged.
    """
    chosen = np.random.default_rng(0).permutation(len(samples.rows))[:MOST_PICTURES]
    samples = samples._replace(rows=samples.rows[chosen], targets=samples.targets[chosen])
    race = _Race(model, samples, time.monotonic() + SECONDS, progress)
    best: BetterWay | None = None
    now = Way(samples.plan.data)
    for _ in range(ROUNDS):
        better = race.run(now, other_ways(now))
        if better is None:
            break
        best = better if best is None else better._replace(error_before=best.error_before)
        now = better.way
        if time.monotonic() > race.deadline:
            break
    return best


def other_ways(way: Way) -> list[Way]:
    """Common ways that differ from a given one in normalisation or order of channels, crop, or resizing."""
    data = way.data
    norms = [(data.mean, data.std), *NORMALISATIONS]
    others = [
        Way(data.model_copy(update={"mean": mean, "std": std}), turned)
        for (mean, std), turned in product(norms, (way.turned, not way.turned))
    ]
    cuts = [{"eval_resize": None, "eval_crop": None if crop == 1 else crop} for crop in CROPS]
    resizes = [{"interpolation": interpolation} for interpolation in get_args(Interpolation)]
    others += [way._replace(data=data.model_copy(update=keys)) for keys in (*cuts, *resizes)]
    return [other for other in dict.fromkeys(others) if other != way]


class _Race(NamedTuple):
    """A race of ways to prepare pictures: one that is clearly worse than the first drops out.

    Attributes:
        model: that answers.
        samples: in the order in which they are answered.
        deadline: of the monotonic clock, after which no further batch begins.
        progress: told how many pictures are answered.
    """

    model: nn.Module
    samples: Samples
    deadline: float
    progress: Progress

    def run(self, now: Way, others: list[Way]) -> BetterWay | None:
        """The clearly better way with the fewest errors; None where no way is clearly better."""
        level = 1 - (1 - LEVEL) / len(others)
        right = {way: np.empty(0, dtype=bool) for way in (now, *others)}
        total = len(self.samples.rows)
        size = self.samples.plan.batch_size
        for start in range(0, total, size):
            answered = self._ask(list(right), slice(start, start + size))
            # A way that makes the same first batch as `now` drops out; later that may be chance.
            ways = right if start else answered
            right = {way: np.concatenate([right[way], answered.get(way, answered[now])]) for way in ways}
            self.progress("pictures prepared in other ways", len(right[now]), total)
            for way in others:
                if way in right and _difference(right[now], right[way], level)[0] > 0:
                    del right[way]
            if len(right) == 1 or time.monotonic() > self.deadline:
                break
        clear = [way for way in right if way != now and _difference(right[now], right[way], level)[1] < 0]
        if not clear:
            return None
        best = max(clear, key=lambda way: np.count_nonzero(right[way]))
        return BetterWay(best, error=_error(right[best]), error_before=_error(right[now]))

    @torch.no_grad()
    def _ask(self, ways: list[Way], part: slice) -> dict[Way, NDArray[np.bool_]]:
        """(n,) right answers by way; a way that makes the same pictures as the first is left out."""
        plan, device = self.samples.plan, self.samples.plan.device
        targets = torch.from_numpy(self.samples.targets[part]).to(device)
        fitted: dict[tuple[int, Interpolation], list[Tensor]] = {
            (data.resized_side, data.interpolation): [] for data, _ in ways
        }
        for row in self.samples.rows[part].tolist():
            stored = plan.picture(row)  # one at a time: a photograph has many MB
            for (side, interpolation), pictures in fitted.items():
                pictures.append(resize_and_crop(stored, side, plan.data.image_size, interpolation))
        cuts = {cut: torch.stack(pictures).to(device) for cut, pictures in fitted.items()}
        first: Tensor | None = None
        right: dict[Way, NDArray[np.bool_]] = {}
        for data, turned in ways:
            cut = cuts[data.resized_side, data.interpolation]
            images = channels_first(Normalisation(data, device)(cut))
            images = images.flip(1) if turned else images
            if first is None:
                first = images
            elif torch.equal(images, first):
                continue
            right[Way(data, turned)] = is_top1_correct(self.model(images), targets).cpu().numpy()
        return right


def _difference(before: NDArray[np.bool_], after: NDArray[np.bool_], level: float) -> Interval:
    """Interval of the change of the error from one way to another, on the same pictures."""
    both, lost = np.count_nonzero(before & after), np.count_nonzero(before & ~after)
    gained = np.count_nonzero(after & ~before)
    table = Counts(
        both_right=both,
        negative_flips=lost,
        positive_flips=gained,
        both_wrong=len(before) - both - lost - gained,
    )
    return error_difference(table, level)


def _error(right: NDArray[np.bool_]) -> Rate:
    return rate(int(np.count_nonzero(~right)), len(right))
