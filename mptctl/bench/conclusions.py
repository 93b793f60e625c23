"""The conclusion of each bench in words: the fastest way on this machine, and what to set for it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mptctl.bench.evaluate import EvaluateBench
    from mptctl.bench.kernel import KernelBench
    from mptctl.bench.loader import LoaderBench
    from mptctl.bench.loader_parts import LoaderParts, PartName
    from mptctl.bench.step import StepBench, StepRatios

# `mptctl pack` is named if the files' shorter side is more than this times the side of what the model sees.
# The usual resize, to 256 for 224, has 1.14.
_LARGE = 1.5


def loader_sentence(bench: LoaderBench) -> str:
    """Name the fastest loader, the flags that choose it, and what bounds the threaded loader.

    Without a fastest loader, return the verdict alone.
    """
    if bench.fastest is None:
        return f"{bench.verdict[:1].upper()}{bench.verdict[1:]}."
    bound = "" if bench.parts is None else f" {bound_sentence(bench.parts, bench.image_size)}"
    # Imports torch, which a bench of comparisons does without.
    from mptctl.data.loading.choose import LOADERS

    recipe_names = {kind.name: kind.recipe_name for kind in LOADERS}
    swept = {} if bench.sweep is None else bench.sweep.settings
    keys = {"loader": recipe_names[bench.fastest], **{key: f"{value:g}" for key, value in swept.items()}}
    settings = " ".join(f"--set data.{key}={value}" for key, value in keys.items())
    return f"Fastest here: {bench.verdict}. To take it: {settings}.{bound}"


def bound_sentence(parts: LoaderParts, image_size: int) -> str:
    """Name what bounds the threaded loader, the speed of each part of its work, and `pack` where it helps.

    The bound is the slowest part, or the disk if that is slower. `pack` makes pictures smaller, for all but
    transforming and copying: those see pictures of the model's size.

    Args:
        parts: the measured speeds.
        image_size: side of the square that the model sees, in pixels.
    """
    words: dict[PartName, str] = {
        "read": "reading", "decode": "decoding", "resize": "resizing", "transform": "transforming",
        "copy": "copying",
    }  # fmt: skip
    rates = ", ".join(f"{words[name]} {rate:,.0f}" for name, rate in parts.images_per_s.items())
    is_bound_by_disk = parts.disk is not None and parts.disk < parts.images_per_s[parts.bound]
    if is_bound_by_disk:
        conclusion = (
            f"The threaded loader is bound by the disk, {parts.disk:,.0f} images/s where the system's cache "
            "does not hold the files"
        )
    else:
        conclusion = f"The threaded loader is bound by {words[parts.bound]}"
    line = f"{conclusion}; images/s of each part alone: {rates}"
    size_matters = is_bound_by_disk or parts.bound not in ("transform", "copy")
    pack_helps = size_matters and parts.short_side > _LARGE * image_size
    return f"{line}. Smaller files come faster: mptctl pack." if pack_helps else f"{line}."


def kernel_sentence(bench: KernelBench) -> str:
    """Name the way that is fastest at most sizes; without a GPU, count what bounds the kernel."""
    if bench.device != "cuda":
        binds = Counter(row.binds for row in bench.rows)
        counts = ", ".join(f"{name} at {n} of {binds.total()}" for name, n in binds.most_common())
        return (
            f"What bounds the kernel: {counts}. Nothing is to be set for the loss: a CPU computes it in "
            "eager."
        )
    by_size = defaultdict(list)
    for row in bench.rows:
        by_size[row.n, row.c, row.dtype].append(row)
    wins = Counter(min(rows, key=lambda row: row.us or math.inf).name for rows in by_size.values())
    (best, count), *others = wins.most_common()
    also = "".join(f"; {name} at {n}" for name, n in others)
    sizes = f"{len(by_size)} {'size' if len(by_size) == 1 else 'sizes'}"
    return (
        f"Fastest here: {best}, at {count} of {sizes}{also}. Nothing is to be set for the loss: the fused "
        "kernel is taken where there is a GPU."
    )


def step_sentence(bench: StepBench) -> str:
    """Write the ratios of each precision, and whether each is within the bench's limit."""
    phrases = [phrase for ratios in bench.ratios if (phrase := _ratios_phrase(ratios, bench))]
    if not phrases:
        return (
            "No ratio was measured. A ratio needs a pair of rows: ours + floor, ours-cached + student, "
            "ours + published, or ours-graph + floor-graph."
        )
    return f"A step takes {'; '.join(phrases)}."


def _ratios_phrase(ratios: StepRatios, bench: StepBench) -> str:
    """Write the ratios of one precision, each with whether it is within its limit; empty without ratios."""
    phrases = [
        f"{ratio.median:.2f} times {other} ({'at most' if ratio.within else 'above'} {limit:g})"
        for other, ratio, limit in (
            ("its floor", ratios.ours_to_floor, bench.limit),
            ("the student alone with cached teachers", ratios.cached_to_student, bench.limit),
            ("the published loop", ratios.ours_to_published, bench.limit),
            ("its floor as a graph", ratios.graph_to_floor_graph, bench.graph_limit),
        )
        if ratio is not None
    ]
    return f"in {ratios.precision} {', '.join(phrases)}" if phrases else ""


def evaluate_sentence(bench: EvaluateBench) -> str:
    """Write how `evaluate` compares to the bare join, and whether more memory may help."""
    ours = next(row for row in bench.rows if row.name == "ours")
    memory_was_full = ours.peak_gb >= bench.memory_limit_gb
    advice = (
        f"it held {ours.peak_gb:.1f} GB, so try a larger --memory-limit"
        if memory_was_full
        else "nothing is to be set"
    )
    return (
        f"Ours takes {bench.ratio:.2f} times the bare join, with counts equal to those of DuckDB's SQL; "
        f"{advice}."
    )
