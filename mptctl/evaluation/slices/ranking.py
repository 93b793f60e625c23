"""The slices that are worse than the rest: a test of each, and one rate of false discoveries over all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mptctl.errors import UsageError, option
from mptctl.evaluation.flip_report import SliceRow
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.slices.derived_columns import PictureSizes
from mptctl.evaluation.slices.source import Slice, SliceSource
from mptctl.evaluation.statistics import exact_interval, exact_interval_if_any, lost_share, nfr

Fdr = Literal["bh", "by"]
# A slice is called worse where its q is below.
LEVEL = 0.05
# Chosen: of fewer samples hardly any number of flips is beyond chance.
MIN_SLICE = 30


@dataclass(frozen=True)
class SliceRequest:
    """The slices that are asked for.

    Attributes:
        by: columns, or crossings of them.
        files: where columns are looked for, in this order.
        min_slice: samples of old classes below which a slice is counted, and not ranked.
        fdr: Benjamini and Hochberg, or Benjamini and Yekutieli.
        superclasses: by class; for the column `superclass`.
        pictures: looks at the pictures; for the column `size`.
    """

    by: Sequence[tuple[str, ...]] = ()
    files: Sequence[Path] = ()
    min_slice: int = MIN_SLICE
    fdr: Fdr = "bh"
    superclasses: Mapping[str, str] | None = None
    pictures: Callable[[], PictureSizes] | None = None


def slice_columns(by: Sequence[str] | None) -> list[tuple[str, ...]]:
    """The columns that --by names, or crossings of them.

    Raises:
        UsageError: an empty name, or a column that is crossed with itself.
    """
    keys = [tuple(name.strip() for name in each.split(",")) for each in by or []]
    flag = option("by")
    for key in keys:
        if not all(key) or len(set(key)) < len(key):
            raise UsageError(
                f"{flag} {','.join(key)}: name columns, each once, such as {flag} country,device"
            )
    return keys


def rank(source: SliceSource, request: SliceRequest, whole: Counts) -> tuple[list[SliceRow], int]:
    """The slices that are large enough, ranked together, and how many are not."""
    found = [each for key in dict.fromkeys(request.by) for each in source.cells[key]]
    large = [each for each in found if each.counts.total >= request.min_slice]
    return rank_slices(large, whole, request.fdr), len(found) - len(large)


def rank_slices(slices: Sequence[Slice], whole: Counts, fdr: Fdr = "bh") -> list[SliceRow]:
    """Test each slice against the rest; lowest q first, then the higher rate.

    Fisher's exact test, one-sided (Fisher 1935), of flips among the samples of a slice and of all others; q
    by Benjamini and Hochberg (1995) or, whatever the dependence, Benjamini and Yekutieli (2001).

    >>> counts = Counts(both_right=0, negative_flips=2, positive_flips=0, both_wrong=0)
    >>> whole = Counts(both_right=2, negative_flips=2, positive_flips=0, both_wrong=0)
    >>> round(rank_slices([Slice({"country": "de"}, counts)], whole)[0].p, 4)  # 2 of 2 flips in 2 of 4: 1 / 6
    0.1667

    Args:
        slices: of at least one sample each.
        whole: the flip table of all samples.
        fdr: ``bh`` or ``by``.
    """
    if not slices:
        return []
    from scipy.stats import false_discovery_control, hypergeom  # takes a second to import

    # Of equal counts the test is the same, and of many slices many are alike.
    sizes = np.array([(each.counts.negative_flips, each.counts.total) for each in slices])
    kinds, kind = np.unique(sizes, axis=0, return_inverse=True)
    tail = hypergeom.sf(kinds[:, 0] - 1, whole.total, whole.negative_flips, kinds[:, 1])
    p = np.clip(tail, 0, 1)[kind.ravel()]  # the sum of a tail may round beyond
    q = false_discovery_control(p, method=fdr).tolist()
    rows = [
        SliceRow(
            by=dict(each.by),
            n=each.counts.total,
            negative_flips=each.counts.negative_flips,
            old_right=each.counts.old_right,
            nfr=nfr(each.counts),
            nfr_ci95=exact_interval(each.counts.negative_flips, each.counts.total),
            lost=lost_share(each.counts),
            lost_ci95=exact_interval_if_any(each.counts.negative_flips, each.counts.old_right),
            p=one,
            q=other,
            worse=other < LEVEL,
        )
        for each, one, other in zip(slices, p.tolist(), q, strict=True)
    ]
    return sorted(rows, key=lambda row: (row.q, row.p, -row.nfr, list(row.by.items())))
