"""The settings of `mptctl disagree`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mptctl.evaluation.evaluate_request import MEMORY, MODEL, SLICES
from mptctl.files.request import Flag, Json, ModelRequest, argument


class DisagreeRequest(ModelRequest):
    """The models, the traffic that they predicted, and the rows to label."""

    old: Annotated[
        str, Flag("OLD", f"The model in production: {MODEL}; labels are not read.", positional=True)
    ]
    new: Annotated[str, argument("NEW")]
    """Its replacement, in the same forms."""
    limit: Annotated[float | None, Flag("PCT", low=0, high=100)] = None
    """Say how many labels decide this limit of negative flips per sample."""
    confidence: Annotated[float, Flag("LEVEL")] = 0.95
    """Level of the two-sided interval that decides."""
    draw: Annotated[int | None, Flag("N", low=1)] = None
    """Rows to draw. (default: all whose predictions differ)"""
    strata: Annotated[Literal["none", "confidence"], Flag()] = "none"
    """Draw from three strata in proportion: OLD surer by 0.2, NEW surer, and the rest."""
    seed: Annotated[int, Flag("N", low=0)] = 0
    """Seed of the random order."""
    out: Annotated[Path | None, Flag("FILE.csv")] = None
    """Write the drawn rows in random order, with an empty column `label`; a file that exists is refused."""
    page: Annotated[Path | None, Flag("FILE.html")] = None
    """Write the drawn rows, at most 1,000, as one page on which they are labelled in a browser by keys."""
    pictures: Annotated[Path | None, Flag("DIR")] = None
    """Folder of pictures without labels that runs predict. (default: a run's test part)"""
    by: Annotated[list[str], Flag("COLUMN", panel=SLICES)] = Field([])
    """Differing predictions by a column of --metadata, OLD or NEW; a,b crosses two. Repeatable."""
    metadata: Annotated[Path | None, Flag("FILE", panel=SLICES)] = None
    """Columns of the samples by `id`, in a form that predictions have."""
    memory_limit: Annotated[str | None, Flag("SIZE", panel=MEMORY)] = None
    """Memory for pairing, such as 2GB; the rest goes to disk. (default: 2GB, or half of what is free)"""
    as_json: Json = False
