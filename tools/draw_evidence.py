"""Draw docs/evidence-light.svg and -dark.svg for README: negative flips of each update of CIFAR-10 at one error."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from mptctl.studies.compare import compare_runs

ROOT = Path(__file__).parent.parent
# The row to whose validation error all others are shifted.
MPT = "mpt-kl-k1.5"
# Labels of the bars, by the row that is drawn.
LABELS = {
    "no-treatment": "plain update",
    "mpt-lm-k1.5": "MPT, logit matching",
    "pct-kl": "PCT",
    "elodi": "ELODI, four references",
    MPT: "MPT, KL",
    "no-treatment-46": "plain update, longer",
    "mpt-kl-noref-34-old": "MPT, no reference, old weights, longer",
}
# Colours of text, on a light and on a dark page.
COLOURS = {"light": "#24292f", "dark": "#d0d7de"}


class Bar(NamedTuple):
    """The bar of an update.

    Attributes:
        label: beside the bar.
        nfr: in percent.
        flips: negative flips.
        low: MPT's NFR plus the lower end of the difference's interval, in percent; for MPT its NFR.
        high: MPT's NFR plus the upper end, in percent; for MPT its NFR.
        cost: of training, in plain trainings.
        is_mpt: the update is a variant of MPT.
    """

    label: str
    nfr: float
    flips: int
    low: float
    high: float
    cost: float
    is_mpt: bool


def read_bars() -> list[Bar]:
    """The bars of `mptctl compare results/cifar10-bf16 --equal-error MPT --against MPT`: by cost, then NFR."""
    comparison = compare_runs([ROOT / "results" / "cifar10-bf16"], equal_error=MPT, against=MPT)
    rows = {row.name: row for row in comparison.rows}
    mpt = _percent(rows[MPT].nfr.mean)
    bars = []
    for name, label in LABELS.items():
        row = rows[name]
        nfr = low = high = _percent(row.nfr.mean)
        if row.differences is not None:
            low, high = (
                mpt + _percent(end) for end in (row.differences["nfr"].low, row.differences["nfr"].high)
            )
        flips, _samples = row.flips.values[0]  # of the only seed
        bars.append(Bar(label, nfr, flips, low, high, row.cost or 0.0, name.startswith("mpt")))
    return sorted(bars, key=lambda bar: (_shown_cost(bar), -bar.nfr))


def _shown_cost(bar: Bar) -> float:
    """The cost of a bar as the picture shows it; bars of one shown cost stand together."""
    return round(bar.cost, 1)


def _percent(fraction: float | None) -> float:
    """A fraction that is defined, in percent."""
    return 100 * (fraction or 0.0)


def draw(bars: list[Bar], colour: str) -> Figure:
    """Draw horizontal bars of NFR, with a gap where the cost changes.

    Args:
        bars: from top to bottom.
        colour: of text.
    """
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot(facecolor="none")
    places, place = list[float](), 0.0
    for above, bar in zip([bars[0], *bars], bars, strict=False):
        place -= 1.0 if _shown_cost(above) == _shown_cost(bar) else 1.5
        places.append(place)
    for place, bar in zip(places, bars, strict=True):
        axes.barh(place, bar.nfr, color="#3b82f6" if bar.is_mpt else "#9ca3af", height=0.62)
        axes.text(bar.nfr + 0.1, place, f"{bar.flips}", color=colour, va="center", fontsize=9)
    names = [f"{bar.label} ({_shown_cost(bar)})" for bar in bars]
    axes.set_yticks(places, names, color=colour, fontsize=9)
    axes.tick_params(axis="both", colors=colour, length=0)
    axes.set_xlabel("negative flip rate, % (flips of 5,000 beside each bar)", color=colour, fontsize=9)
    axes.set_xlim(0, max(bar.nfr for bar in bars) + 1)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def words(bars: list[Bar]) -> str:
    """The description of the pictures that is stored in their files."""
    return "; ".join(
        f"{bar.label}: NFR {bar.nfr:.2f} % ({bar.flips}), {bar.low:.2f} to {bar.high:.2f}, cost {bar.cost:.1f}"
        for bar in bars
    )


def main() -> None:
    """Write both pictures; the same predictions give the same bytes."""
    bars = read_bars()
    with mpl.rc_context({"svg.hashsalt": "evidence", "svg.fonttype": "path"}):
        for page, colour in COLOURS.items():
            draw(bars, colour).savefig(
                ROOT / "docs" / f"evidence-{page}.svg", metadata={"Date": None, "Description": words(bars)}
            )


if __name__ == "__main__":
    main()
