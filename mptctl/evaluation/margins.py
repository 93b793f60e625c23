"""Logit margins before and after: how far the true class stands above the best other one."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.logit_sections import MarginGroup, Margins
from mptctl.evaluation.statistics import rate

BINS = 30
# Margins beyond it count as infinite: sums and differences of them would leave the range of numbers.
LARGEST = 1e100
Group = tuple[Literal["old", "new"], Literal["old classes", "new classes"], NDArray[np.float64]]


def margin_summary(groups: list[Group]) -> Margins | None:
    """Histograms with common edges, and quantiles.

    Args:
        groups: (model, samples, margins (n,)); margins that are not finite, or beyond `LARGEST`, are left out.

    Returns:
        None where no group has a finite margin.
    """
    finite = [(model, samples, values[np.abs(values) <= LARGEST]) for model, samples, values in groups]
    everything = np.concatenate([values for *_, values in finite]) if finite else np.empty(0)
    if not everything.size:
        return None
    # The outermost half percent on each side would squeeze the rest into a few bars.
    low, high = np.quantile(everything, [0.005, 0.995])
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    return Margins(
        edges=[float(edge) for edge in edges],
        groups=[
            MarginGroup(
                model=model,
                samples=samples,
                n=values.size,
                mean=float(values.mean()),
                quantiles=tuple(float(q) for q in np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])),
                negative=rate(int((values < 0).sum()), values.size),
                histogram=np.histogram(np.clip(values, low, high), edges)[0].tolist(),
            )
            for model, samples, values in finite
            if values.size
        ],
    )
