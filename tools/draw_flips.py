"""Draw docs/flip.svg for README: characters that the demo's plain update breaks and the MPT update keeps."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mptctl.data.characters import draw_characters
from mptctl.studies.answers_file import PartAnswers, read_answers

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "results" / "demo" / "0"
SEED = 0
# Characters in the picture.
COUNT = 5
# Readable on a light and on a dark page.
RIGHT, WRONG = "#2da44e", "#e5534b"


class BrokenSample(NamedTuple):
    """A picture that the old model and MPT get right and the plain update wrong: its row and three class names."""

    row: int
    old: str
    plain: str
    mpt: str


def most_confident_flips(count: int) -> list[BrokenSample]:
    """Flips of the plain update that MPT keeps right, of different classes, its most confident errors first.

    Args:
        count: how many.
    """
    runs = {name: read_answers(DEMO / name) for name in ("old", "no-treatment", "mpt-kl")}
    answers: dict[str, PartAnswers] = {}
    for name, run in runs.items():
        if run is None:
            raise FileNotFoundError(f"{DEMO / name} holds no answers")
        answers[name] = run.test
        names = run.head.class_names
    old, plain, mpt = answers["old"], answers["no-treatment"], answers["mpt-kl"]
    # The old model answers its own classes alone; the updates answer all test samples.
    plain_at, mpt_at = (np.searchsorted(part.index, old.index) for part in (plain, mpt))
    broken = old.right() & ~plain.right()[plain_at] & mpt.right()[mpt_at]
    order = np.argsort(-plain.confidence[plain_at][broken].astype(np.float64), kind="stable")
    flips: list[BrokenSample] = []
    for place in np.flatnonzero(broken)[order]:
        label = names[int(old.label[place])]
        answer = names[int(plain.answers()[plain_at[place]])]
        # A capital and its small letter, or 0 and O, look alike: a reader sees nothing in such a flip.
        alike = label.lower() == answer.lower() or {label, answer} <= set("0Oo1lIi")
        if not alike and all(label != flip.old for flip in flips):
            flips.append(BrokenSample(int(old.index[place]), label, answer, label))
        if len(flips) == count:
            break
    return flips


def draw(flips: list[BrokenSample], pictures: NDArray[np.uint8]) -> Figure:
    """The pictures in a row, below each what the three models say.

    Args:
        flips: what is drawn, from left to right.
        pictures: (M, H, W, 3), by row.
    """
    figure = Figure(figsize=(7.2, 1.9))
    figure.patch.set_alpha(0)
    figure.subplots_adjust(left=0.01, right=0.99, top=0.98, bottom=0.36)
    for axes, flip in zip(np.atleast_1d(figure.subplots(1, len(flips))), flips, strict=True):
        axes.imshow(pictures[flip.row], interpolation="nearest")
        axes.set_axis_off()
        lines = (
            (f"old model: {flip.old}", RIGHT),
            (f"plain update: {flip.plain}", WRONG),
            (f"MPT: {flip.mpt}", RIGHT),
        )
        for number, (text, colour) in enumerate(lines):
            height = -0.13 - 0.17 * number
            axes.text(0.5, height, text, color=colour, ha="center", va="center", transform=axes.transAxes)
    return figure


def words(flips: list[BrokenSample]) -> str:
    """What the picture shows, which it holds too."""
    return "; ".join(
        f"{flip.row}: old model {flip.old}, plain update {flip.plain}, MPT {flip.mpt}" for flip in flips
    )


def main() -> None:
    """Write the picture; the same kept predictions give the same bytes."""
    flips = most_confident_flips(COUNT)
    with mpl.rc_context({"svg.hashsalt": "flip", "svg.fonttype": "path", "font.size": 9}):
        figure = draw(flips, draw_characters(SEED)[0])
        figure.savefig(ROOT / "docs" / "flip.svg", metadata={"Date": None, "Description": words(flips)})


if __name__ == "__main__":
    main()
