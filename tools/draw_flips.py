"""Draw docs/flip.svg for README: characters that the demo's plain update gets wrong and the MPT update right."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mptctl.data.characters import draw_characters
from mptctl.studies.run_folders import kept_answers

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "results" / "demo" / "0"
SEED = 0
# Characters in the picture.
COUNT = 5
# Colours that are readable on a light and on a dark page.
RIGHT, WRONG = "#2da44e", "#e5534b"


class BrokenSample(NamedTuple):
    """A picture that the old model and MPT get right and the plain update wrong.

    Attributes:
        row: of the picture.
        old: class that the old model predicts.
        plain: class that the plain update predicts.
        mpt: class that the MPT update predicts.
    """

    row: int
    old: str
    plain: str
    mpt: str


def most_confident_flips(count: int) -> list[BrokenSample]:
    """Flips of the plain update that MPT gets right, one a class, the plain update's most confident ones first.

    Args:
        count: number of flips, at most.

    Raises:
        CheckpointError: the stored predictions of a run of the demo are missing.
    """
    runs = [kept_answers(DEMO / name) for name in ("old", "no-treatment", "mpt-kl")]
    names, (old, plain, mpt) = runs[0].head.class_names, (run.test for run in runs)
    # The old model has predictions of its own classes only, the updates of all test samples.
    plain_rows, mpt_rows = (np.searchsorted(part.index, old.index) for part in (plain, mpt))
    is_broken = old.right() & ~plain.right()[plain_rows] & mpt.right()[mpt_rows]
    order = np.argsort(-plain.confidence[plain_rows][is_broken].astype(np.float64), kind="stable")
    flips: list[BrokenSample] = []
    for row in np.flatnonzero(is_broken)[order]:
        label = names[int(old.label[row])]
        prediction = names[int(plain.answers()[plain_rows[row]])]
        # A capital and its small letter, or 0 and O, look alike: a reader would see no error.
        looks_alike = label.lower() == prediction.lower() or {label, prediction} <= set("0Oo1lIi")
        if not looks_alike and all(label != flip.old for flip in flips):
            flips.append(BrokenSample(int(old.index[row]), label, prediction, label))
        if len(flips) == count:
            break
    return flips


def draw(flips: list[BrokenSample], pictures: NDArray[np.uint8]) -> Figure:
    """Draw the pictures of flips side by side, below each the predictions of the three models.

    Args:
        flips: from left to right.
        pictures: (N, H, W, 3) pictures of all rows.
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
    """The description of the picture that is stored in its file."""
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
