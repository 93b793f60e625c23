"""Conclusions of a bench in one sentence: the fastest way here, and what to set."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from mptctl.data.loading.choose import LOADERS

if TYPE_CHECKING:
    from mptctl.bench.evaluate import EvaluateBench
    from mptctl.bench.kernel import KernelBench
    from mptctl.bench.loader import LoaderBench
    from mptctl.bench.loader_parts import LoaderParts, PartName
    from mptctl.bench.step import StepBench, StepRatios

# Shorter sides of files in those of what the model sees, above which a smaller copy is worth naming: at 256
# for 224, the usual resize, it is 1.14.
_LARGE = 1.5


def loader_sentence(found: LoaderBench) -> str:
    """The verdict, the settings of the fastest loader, and what bounds the threaded one."""
    if found.fastest is None:
        return f"{found.verdict[:1].upper()}{found.verdict[1:]}."
    bound = "" if found.parts is None else f" {bound_sentence(found.parts, found.image_size)}"
    names = {kind.name: kind.recipe_name for kind in LOADERS}
    keys = {"loader": names[found.fastest]} | {
        key: f"{value:g}" for key, value in (found.tuned or {}).items()
    }
    settings = " ".join(f"--set data.{key}={value}" for key, value in keys.items())
    return f"Fastest here: {found.verdict}. To take it: {settings}.{bound}"


def bound_sentence(parts: LoaderParts, image_size: int) -> str:
    """The slowest part of the threaded loader's work, the speed of each alone, and `pack` where it helps.

    Args:
        parts: what was measured.
        image_size: side of the square that the model sees, in pixels.
    """
    words: dict[PartName, str] = {
        "read": "reading", "decode": "decoding", "resize": "resizing", "transform": "transforming",
        "copy": "copying",
    }  # fmt: skip
    rates = ", ".join(f"{words[name]} {rate:,.0f}" for name, rate in parts.images_per_s.items())
    slowest = parts.images_per_s[parts.bound]
    if parts.disk is not None and parts.disk < slowest:
        said = (
            f"The threaded loader is bound by the disk, {parts.disk:,.0f} images/s where the system's cache "
            "does not hold the files"
        )
    else:
        said = f"The threaded loader is bound by {words[parts.bound]}"
    line = f"{said}; images/s of each part alone: {rates}"
    helps = parts.bound not in ("transform", "copy") and parts.short_side > _LARGE * image_size
    return f"{line}. Smaller files come faster: mptctl pack." if helps else f"{line}."


def kernel_sentence(found: KernelBench) -> str:
    """The fastest way at most sizes, or what bounds most; the loss takes its backend by itself."""
    if found.device != "cuda":
        binds = Counter(row.binds for row in found.rows)
        said = ", ".join(f"{name} at {n} of {binds.total()}" for name, n in binds.most_common())
        return (
            f"What bounds the kernel: {said}. Nothing is to be set for the loss: a CPU computes it in eager."
        )
    by_size = defaultdict(list)
    for row in found.rows:
        by_size[row.n, row.c, row.dtype].append(row)
    won = Counter(min(rows, key=lambda row: row.us or math.inf).name for rows in by_size.values())
    (best, count), sizes = won.most_common(1)[0], len(by_size)
    others = "".join(f"; {name} at {n}" for name, n in won.most_common()[1:])
    said = f"Fastest here: {best}, at {count} of {sizes} {'size' if sizes == 1 else 'sizes'}"
    return (
        f"{said}{others}. Nothing is to be set for the loss: the fused kernel is taken where there is a GPU."
    )


def step_sentence(found: StepBench) -> str:
    """The ratios of each precision in words, and whether each is at most what it shall be."""
    said = [_ratios_in_words(of_one, found.limit) for of_one in found.ratios]
    said = [words for words in said if words]
    if not said:
        return (
            "No ratio was measured: it takes ours and floor, ours-cached and student, or ours and published."
        )
    return f"A step takes {'; '.join(said)}."


def _ratios_in_words(of_one: StepRatios, limit: float) -> str:
    said = [
        f"{words.format(f'{ratio.median:.2f} times')} ({'at most' if ratio.within else 'above'} {limit:g})"
        for words, ratio in (
            ("{} its floor", of_one.ours_to_floor),
            ("{} the student alone with cached teachers", of_one.cached_to_student),
            ("{} the published loop", of_one.ours_to_published),
        )
        if ratio is not None
    ]
    return f"in {of_one.precision} {', '.join(said)}" if said else ""


def evaluate_sentence(found: EvaluateBench) -> str:
    """Ours beside the bare join, and whether the limit on memory was near."""
    ours = next(row for row in found.rows if row.name == "ours")
    near = ours.peak_gb >= found.memory_limit_gb
    advice = (
        f"it held {ours.peak_gb:.1f} GB, so try a larger --memory-limit" if near else "nothing is to be set"
    )
    return (
        f"Ours takes {found.ratio:.2f} times the bare join, with counts equal to those of DuckDB's SQL; "
        f"{advice}."
    )
