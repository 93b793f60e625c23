"""How simulations print: a row under headings as soon as it is counted, shares in percent with their error."""

from __future__ import annotations

from dataclasses import dataclass


class Table:
    """Columns of text, aligned to the right, each as wide as its heading or ten letters.

    Args:
        heads: of the columns, which are printed first.
    """

    def __init__(self, *heads: str) -> None:
        self._widths = [max(len(head), 10) for head in heads]
        self.row(*heads)

    def row(self, *cells: object) -> None:
        """Print a row: numbers with their thousands, fractions and all else as they are."""
        texts = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
        aligned = (f"{text:>{width}}" for text, width in zip(texts, self._widths, strict=True))
        print("  ".join(aligned), flush=True)


@dataclass(frozen=True)
class Share:
    """A share of draws; as text in percent, with its Monte Carlo error (one standard deviation)."""

    count: int
    of: int

    @property
    def value(self) -> float:
        """The share, 0 to 1."""
        return self.count / self.of

    def __str__(self) -> str:
        error = (self.value * (1 - self.value) / self.of) ** 0.5
        return f"{100 * self.value:.2f} ± {100 * error:.2f}"


def percent(share: float, digits: int = 2) -> str:
    """A fraction as a number of percent."""
    return f"{100 * share:.{digits}f}"
