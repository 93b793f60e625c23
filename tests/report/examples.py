"""A comparison with everything that a report can show, and names that try to be more than text."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np

from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import FlipReport, SliceRow
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.report.documents.flips_page import render_html

HOSTILE = "<script>alert('x')</script>|`$\\frac$`@all"


@cache
def example(first_class: str = "ant", with_logits: bool = True, many: int = 0) -> FlipReport:
    """Four old and two new classes, 400 samples; `many` more old classes of one sample each."""
    rng = np.random.default_rng(0)
    classes = (first_class, "bee", "cow", "dog", *(f"old{i}" for i in range(many)), "emu", "fox")
    c, n = len(classes), 400
    truth = np.concatenate([rng.integers(0, c, n - many), np.arange(4, 4 + many)])
    ids = np.array([f"{i:04d}{first_class if not i else ''}" for i in range(n)])
    labels = np.array(classes)[truth]
    logits = rng.normal(size=(2, n, c)) * 1.5
    logits[:, np.arange(n), truth] += 2
    if not with_logits:
        old = np.array(classes)[logits[0][:, : c - 2].argmax(1)]
        new = np.array(classes)[logits[1].argmax(1)]
        return compare(
            build_predictions("old", ids, labels, old, classes=classes[: c - 2]),
            build_predictions("new", ids, labels, new, classes=classes),
        )
    return compare(
        build_predictions("old", ids, labels, logits=logits[0][:, : c - 2], classes=classes[: c - 2]),
        build_predictions(f"new {first_class}", ids, labels, logits=logits[1], classes=classes),
        ComparisonRequest(limits=Limits(max_nfr=0.01)),
    )


@cache
def example_page(first_class: str = "ant") -> str:
    """The page of that comparison, whose figures take seconds."""
    return render_html(example(first_class))


def with_everything(first_class: str = "ant") -> FlipReport:
    """The example, with slices and waived flips made up over its list of flips."""
    report = example(first_class)
    flips = [
        flip.model_copy(
            update={"by": {"country": ("de", "it", "")[i % 4 % 3], "note": HOSTILE}, "waived": i % 5 == 0}
        )
        for i, flip in enumerate(report.worst_flips)
    ]
    slices = [
        SliceRow(
            by={"country": country, "note": HOSTILE}, n=50, negative_flips=n, old_right=40, nfr=n / 50,
            nfr_ci95=(0.0, 0.5), lost=n / 40, lost_ci95=(0.0, 0.5), p=0.5, q=0.5, worse=False,
        )
        for country, n in Counter(flip.by["country"] for flip in flips).items()
    ]  # fmt: skip
    return report.model_copy(update={"worst_flips": flips, "slices": slices})
