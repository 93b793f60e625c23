"""The ranking of slices: each is tested against the rest, with one rate of false discoveries over all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mptctl.errors import UsageError, option
from mptctl.evaluation.flip_report import SliceRow
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.slices.source import Slice, SliceSource
from mptctl.evaluation.statistics import exact_interval, exact_interval_if_any, lost_share, nfr

# A slice with a q below this is called worse than the rest.
LEVEL = 0.05
# Chosen: with fewer samples hardly any number of flips is more than chance.
MIN_SLICE = 30


@dataclass(frozen=True)
class SliceRequest:
    """The slices that a comparison is asked to rank.

    Attributes:
        by: keys of slices, each one column or a crossing of several.
        files: where columns are looked for, in this order.
        min_slice: a slice with fewer samples of old classes is only counted, and not ranked.
    """

    by: Sequence[tuple[str, ...]] = ()
    files: Sequence[Path] = ()
    min_slice: int = MIN_SLICE


def slice_columns(by: Sequence[str] | None) -> list[tuple[str, ...]]:
    """Parse the values of --by: each names one column, or a crossing of columns such as ``country,device``.

    Raises:
        UsageError: a name is empty or no text, or a column is crossed with itself.
    """
    flag = option("by")
    if other := [each for each in by or [] if not isinstance(each, str)]:
        raise UsageError(f"{flag} {other[0]!r}: is no text; cross columns as in {flag} country,device")
    keys = [tuple(name.strip() for name in each.split(",")) for each in by or []]
    for key in keys:
        if not all(key) or len(set(key)) < len(key):
            raise UsageError(
                f"{flag} {','.join(key)}: name columns, each once, such as {flag} country,device"
            )
    return keys


def rank(source: SliceSource, request: SliceRequest, whole: Counts) -> tuple[list[SliceRow], int]:
    """Rank the slices of a request that are large enough, all keys together.

    Args:
        source: the samples by columns.
        request: the slices.
        whole: the flip table of all samples.

    Returns:
        The ranked slices, and how many slices were too small to be ranked.
    """
    # The same columns in another order have the same slices, which are tested once.
    keys: dict[frozenset[str], tuple[str, ...]] = {}
    for key in request.by:
        keys.setdefault(frozenset(key), key)
    slices = [each for key in keys.values() for each in source.slices[key]]
    large = [each for each in slices if each.counts.total >= request.min_slice]
    return rank_slices(large, whole), len(slices) - len(large)


def rank_slices(slices: Sequence[Slice], whole: Counts) -> list[SliceRow]:
    """Test each slice against the rest, and sort the slices: lowest q first, then lowest p, then highest NFR.

    The test is Fisher's exact test, one-sided (Fisher 1935), of the flips among the samples of a slice and
    among all other samples. The q are by Benjamini and Hochberg (1995).

    >>> counts = Counts(both_right=0, negative_flips=2, positive_flips=0, both_wrong=0)
    >>> whole = Counts(both_right=2, negative_flips=2, positive_flips=0, both_wrong=0)
    >>> round(rank_slices([Slice({"country": "de"}, counts)], whole)[0].p, 4)  # 2 of 2 flips in 2 of 4: 1 / 6
    0.1667

    Args:
        slices: of at least one sample each.
        whole: the flip table of all samples.
    """
    if not slices:
        return []
    from scipy.stats import false_discovery_control, hypergeom  # takes a second to import

    # Slices with equal counts have the same p, which is computed once: among many slices many are alike.
    counts = np.array([(each.counts.negative_flips, each.counts.total) for each in slices])
    distinct, distinct_of_slice = np.unique(counts, axis=0, return_inverse=True)
    tail = hypergeom.sf(distinct[:, 0] - 1, whole.total, whole.negative_flips, distinct[:, 1])
    p = np.clip(tail, 0, 1)[distinct_of_slice.ravel()]  # by rounding the sum of a tail may be above 1
    q = false_discovery_control(p).tolist()
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
            p=p_of_slice,
            q=q_of_slice,
            worse=q_of_slice < LEVEL,
        )
        for each, p_of_slice, q_of_slice in zip(slices, p.tolist(), q, strict=True)
    ]
    return sorted(rows, key=lambda row: (row.q, row.p, -row.nfr, list(row.by.items())))
