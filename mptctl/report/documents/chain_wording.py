"""The words and cells that every form of a chain shares: terminal, Markdown and figure."""

from __future__ import annotations

from typing import Literal

from mptctl.evaluation.rates import Rate
from mptctl.report.media.numbers import NOT_DEFINED, format_count, format_interval, percent
from mptctl.studies.chain import ChainReport, ChainRow

Column = Literal["er_all", "flips_before", "flips_first", "new", "lasting", "healed"]
# How the columns are called, in percent.
TITLES: dict[Column, str] = {
    "er_all": "error",
    "flips_before": "vs before",
    "flips_first": "vs first",
    "new": "new",
    "lasting": "lasting",
    "healed": "healed",
}
# Columns whose denominator stands beside them, in the column of flips against the first.
SHARED: tuple[Column, ...] = ("new", "lasting", "healed")
MEANING = (
    "vs before: flips against the generation before, over the classes that it knows. vs first: flips against "
    "generation 0, over its classes. Of these, new ones were right in the generation before and lasting ones were "
    "wrong there too; healed is what generation 0 got right, the one before got wrong and this one gets right again. "
    "new, lasting and healed are parts of the same test samples as vs first. Rates are in percent, with their 95 % "
    "intervals and counts; error is that on all classes that a generation knows."
)


def value_text(rate: Rate) -> str:
    """A rate in percent, without the sign."""
    return percent(rate.value).removesuffix(" %")


def interval_text(rate: Rate) -> str:
    """The interval of a rate in percent; narrow, because six of them stand beside each other in 80 columns."""
    if rate.ci95 is None:
        return NOT_DEFINED
    return f"{100 * rate.ci95[0]:.1f}–{100 * rate.ci95[1]:.1f}"


def count_text(row: ChainRow, column: Column) -> str:
    """A count, and its denominator where it is not that of the column of flips against the first."""
    rate: Rate = getattr(row, column)
    return f"{rate.count:,}" if column in SHARED else f"{rate.count:,}/{rate.of:,}"


def remarks(report: ChainReport) -> list[str]:
    """Sentences on generation 0, and the notes."""
    several = len({model.seed for model in report.first}) > 1
    lines = []
    for model in report.first:
        of = f" of seed {model.seed}" if several else ""
        lines.append(
            f"Generation 0{of} knows {model.classes} classes and errs on {percent(model.er_all.value)} of their test "
            f"samples ({format_interval(model.er_all.ci95)}; {format_count(model.er_all)})."
        )
    return [*lines, *(f"Note: {note}." for note in report.notes)]


def seeds_of(report: ChainReport) -> list[tuple[str | None, list[ChainRow]]]:
    """The rows of each seed, with a heading where there are several."""
    seeds = list(dict.fromkeys(row.seed for row in report.rows))
    return [
        (f"seed {seed}" if len(seeds) > 1 else None, [row for row in report.rows if row.seed == seed])
        for seed in seeds
    ]
