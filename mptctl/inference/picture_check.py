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

# Mean and deviation: of torchvision, of timm's "inception", of levels from 0 to 1, and to 255.
NORMALISATIONS = (
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ((0.5,) * 3, (0.5,) * 3),
    ((0.0,) * 3, (1.0,) * 3),
    ((0.0,) * 3, (1 / 255,) * 3),
)
# Sides of the centre crop over those of the resized picture: the whole, and torchvision's.
CROPS = (1.0, 0.875)
# Chosen: a wrong normalisation shows on a few pictures; a wrong interpolation may want many.
MOST_PICTURES, BATCH, SECONDS = 5000, 50, 60.0
# Level of the intervals of a round, over all ways that are tried in it.
LEVEL = 0.95
# Several things can be wrong at once; most are found one after the other.
ROUNDS = 3


class Way(NamedTuple):
    """A way to prepare pictures.

    Attributes:
        data: the recipe's keys.
        turned: the channels are turned, after normalisation: the model is of the other order than was said.
    """

    data: DataRecipe
    turned: bool = False


class BetterWay(NamedTuple):
    """A way to prepare pictures in which a model errs clearly less.

    Attributes:
        way: the way.
        error: of the model in it.
        error_before: of the model in the way that was named, on the same pictures.
    """

    way: Way
    error: Rate
    error_before: Rate

    def flags(self, named: DataRecipe, channels: Channels) -> str:
        """Options of the command line that choose it.

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
    """Held-out pictures, and what a model should answer.

    Attributes:
        plan: of the part that they are of.
        rows: (n,) of the manifest.
        targets: (n,) column of the right answer among the model's logits.
    """

    plan: LoadPlan
    rows: NDArray[np.int64]
    targets: NDArray[np.int64]


def find_better_way(model: nn.Module, samples: Samples, progress: Progress = tell_nobody) -> BetterWay | None:
    """Look for a common way to prepare pictures in which a model errs clearly less than in the plan's.

    Clearly: the interval of the difference, on the same pictures, lies below zero, at a level that holds for
    all ways of a round together. Takes a minute at most, plus a batch.

    Args:
        model: in evaluation mode, on the plan's device.
        samples: that it may be asked.
        progress: told how many pictures were asked.

    Raises:
        DataError: a picture is gone or damaged.
    """
    chosen = np.random.default_rng(0).permutation(len(samples.rows))[:MOST_PICTURES]
    samples = samples._replace(rows=samples.rows[chosen], targets=samples.targets[chosen])
    race = _Race(model, samples, time.monotonic() + SECONDS, progress)
    found: BetterWay | None = None
    now = Way(samples.plan.data)
    for _ in range(ROUNDS):
        better = race.run(now, other_ways(now))
        if better is None:
            break
        found = better if found is None else better._replace(error_before=found.error_before)
        now = better.way
        if time.monotonic() > race.deadline:
            break
    return found


def other_ways(way: Way) -> list[Way]:
    """Common ways to prepare pictures: other normalisation and order of channels, crop, or interpolation."""
    data = way.data
    norms = [(data.mean, data.std), *NORMALISATIONS]
    found = [
        Way(data.model_copy(update={"mean": mean, "std": std}), turned)
        for (mean, std), turned in product(norms, (way.turned, not way.turned))
    ]
    cuts = [{"eval_resize": None, "eval_crop": None if crop == 1 else crop} for crop in CROPS]
    resizes = [{"interpolation": interpolation} for interpolation in get_args(Interpolation)]
    found += [way._replace(data=data.model_copy(update=keys)) for keys in (*cuts, *resizes)]
    return [other for other in dict.fromkeys(found) if other != way]


class _Race(NamedTuple):
    """Ways to prepare pictures in a race: one that is clearly worse than the first drops out.

    Attributes:
        model: that is asked.
        samples: in the order in which it is asked.
        deadline: of the monotonic clock, after which no further batch is begun.
        progress: told how many pictures were asked.
    """

    model: nn.Module
    samples: Samples
    deadline: float
    progress: Progress

    def run(self, now: Way, others: list[Way]) -> BetterWay | None:
        """The way with the fewest errors of those that are clearly better; None where none is."""
        level = 1 - (1 - LEVEL) / len(others)
        right = {way: np.empty(0, dtype=bool) for way in (now, *others)}
        total = len(self.samples.rows)
        size = self.samples.plan.batch_size
        for start in range(0, total, size):
            found = self._ask(list(right), slice(start, start + size))
            # A way that changes nothing of the first batch drops out; of a later one that may be chance.
            ways = right if start else found
            right = {way: np.concatenate([right[way], found.get(way, found[now])]) for way in ways}
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
        """Right answers in each way; ways that make the same pictures as the first one are left out."""
        plan, device = self.samples.plan, self.samples.plan.device
        targets = torch.from_numpy(self.samples.targets[part]).to(device)
        fitted: dict[tuple[int, Interpolation], list[Tensor]] = {
            (data.resized_side, data.interpolation): [] for data, _ in ways
        }
        for row in self.samples.rows[part].tolist():
            stored = plan.picture(row)  # one at a time: of a photograph they are many MB
            for (side, interpolation), pictures in fitted.items():
                pictures.append(resize_and_crop(stored, side, plan.data.image_size, interpolation))
        cuts = {cut: torch.stack(pictures).to(device) for cut, pictures in fitted.items()}
        first: Tensor | None = None
        found: dict[Way, NDArray[np.bool_]] = {}
        for data, turned in ways:
            cut = cuts[data.resized_side, data.interpolation]
            images = channels_first(Normalisation(data, device)(cut))
            images = images.flip(1) if turned else images
            if first is None:
                first = images
            elif torch.equal(images, first):
                continue
            found[Way(data, turned)] = is_top1_correct(self.model(images), targets).cpu().numpy()
        return found


def _difference(before: NDArray[np.bool_], after: NDArray[np.bool_], level: float) -> Interval:
    """Interval of what another way changes of the error, on the same pictures."""
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
