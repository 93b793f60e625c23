"""Numbers as text, the same in every report."""

from __future__ import annotations

from mptctl.evaluation.rates import Interval, Rate

NOT_DEFINED = "n/a"


def duration(seconds: float) -> str:
    """A time in the two units that matter: 40 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    words: list[str] = []
    left = max(0, round(seconds))
    for i, (unit, size) in enumerate(units):
        if left >= size or (unit == "s" and not words):
            words = [f"{left // size} {unit}"]
            if i + 1 < len(units) and (rest := left % size // units[i + 1][1]):
                words.append(f"{rest} {units[i + 1][0]}")
            break
    return " ".join(words)


def percent(fraction: float | None, digits: int = 2) -> str:
    """A fraction as percent with its sign; a rate that is not defined as n/a."""
    return NOT_DEFINED if fraction is None else f"{100 * fraction:.{digits}f} %"


def number(value: float | None, form: str) -> str:
    """A number in a form such as ``.4g``; one that is not defined as n/a."""
    return NOT_DEFINED if value is None else f"{value:{form}}"


def format_interval(interval: Interval | None, digits: int = 2) -> str:
    """An interval of fractions in percent."""
    if interval is None:
        return NOT_DEFINED
    return f"{100 * interval[0]:.{digits}f} to {100 * interval[1]:.{digits}f} %"


def format_count(rate: Rate) -> str:
    """Count and denominator; an expected count is no whole number."""
    of = f"{rate.of:,}" if isinstance(rate.of, int) else f"{rate.of:,.1f}"
    return f"{rate.count:,} / {of}"


def of_count(rate: Rate, waived: int = 0) -> str:
    """Count and denominator in words: ``2 of 452``, with waived flips ``2 of 452 counted, 1 waived``."""
    of = f"{rate.of:,}" if isinstance(rate.of, int) else f"{rate.of:,.1f} expected by chance"
    beside = f" counted, {waived:,} waived" if waived else ""
    return f"{rate.count - waived:,} of {of}{beside}"


def points(fraction: float, *, sign: bool = True) -> str:
    """A difference of two rates in percentage points: ``+0.40 points``, ``1 point``."""
    said = f"{100 * fraction:+.2f}" if sign else f"{100 * fraction:g}"
    return f"{said} {'point' if said == '1' else 'points'}"


def p_value(p: float) -> str:
    """A p-value with as many digits as mean something."""
    return f"p = {p:.3f}" if p >= 0.001 else f"p = {p:.1e}"


def q_value(q: float) -> str:
    """A rate of false discoveries with as many digits as mean something."""
    return f"{q:.3f}" if q >= 0.001 else f"{q:.0e}"
