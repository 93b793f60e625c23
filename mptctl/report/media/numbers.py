"""Numbers as text, the same in every report."""

from __future__ import annotations

from mptctl.evaluation.rates import Interval, Rate

NOT_DEFINED = "n/a"
# A p-value below it may be 0 in double precision.
SMALLEST_P = "1e-300"


def duration(seconds: float) -> str:
    """A time in its largest unit and, unless that is 0, the next: 40 s, 3 min 20 s, 2 h, 3 d 4 h.

    Units smaller than these two are dropped; a negative time is 0 s.
    """
    whole_seconds = max(0, round(seconds))
    for unit, size, smaller_unit, smaller_size in (
        ("d", 86400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if whole_seconds >= size:
            smaller = whole_seconds % size // smaller_size
            text = f"{whole_seconds // size} {unit}"
            return f"{text} {smaller} {smaller_unit}" if smaller else text
    return f"{whole_seconds} s"


def percent(fraction: float | None, digits: int = 2) -> str:
    """A fraction in percent, such as ``1.40 %``; ``n/a`` for None."""
    return NOT_DEFINED if fraction is None else f"{100 * fraction:.{digits}f} %"


def number(value: float | None, form: str) -> str:
    """A number in a format such as ``.4g``; ``n/a`` for None."""
    return NOT_DEFINED if value is None else f"{value:{form}}"


def format_interval(interval: Interval | None, digits: int = 2) -> str:
    """An interval of fractions in percent, such as ``1.39 to 2.16 %``; ``n/a`` for None."""
    if interval is None:
        return NOT_DEFINED
    return f"{100 * interval[0]:.{digits}f} to {100 * interval[1]:.{digits}f} %"


def counted(count: int, one: str, several: str) -> str:
    """A number of things, such as ``1 flip`` or ``2,480 flips``, from the words for one and for several."""
    return f"{count:,} {one if count == 1 else several}"


def format_count(rate: Rate) -> str:
    """Count and denominator of a rate, such as ``2 / 452``; see `_denominator`."""
    return f"{rate.count:,} / {_denominator(rate.of)}"


def of_count(rate: Rate) -> str:
    """Count and denominator in words: ``3 of 452``."""
    by_chance = "" if isinstance(rate.of, int) else " expected by chance"
    return f"{rate.count:,} of {_denominator(rate.of)}{by_chance}"


def _denominator(of: float) -> str:
    """A number of samples, or an expected number: with one decimal, or below one with two digits."""
    if isinstance(of, int):
        return f"{of:,}"
    return f"{of:,.1f}" if of >= 1 or of == 0 else f"{of:.2g}"


def points(fraction: float) -> str:
    """A difference of two rates in percentage points: ``+0.40 points``."""
    return f"{100 * fraction:+.2f} points"


def p_value(p: float) -> str:
    """A p-value, such as ``p = 0.042``; below 0.001 as ``p = 4.2e-05``; one rounded to 0 as a bound."""
    if p == 0:
        return f"p < {SMALLEST_P}"
    return f"p = {p:.3f}" if p >= 0.001 else f"p = {p:.1e}"


def q_value(q: float) -> str:
    """A false discovery rate, such as ``0.042``; below 0.001 as ``4e-05``; one rounded to 0 as a bound."""
    if q == 0:
        return f"< {SMALLEST_P}"
    return f"{q:.3f}" if q >= 0.001 else f"{q:.0e}"
