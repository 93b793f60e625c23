"""What a comparison of models of ours asks for only where it needs it: a validation part, and a look at pictures."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl.evaluation.reading.predictions import Predictions
from mptctl.inference.named_models import JUDGED, NamedModels, load_predictions

if TYPE_CHECKING:
    from mptctl.evaluation.slices.derived_columns import PictureFacts


def validation_part(
    found: NamedModels,
    new: str,
    run_root: Path,
    *,
    device: str = "auto",
    progress: Callable[[str, int, int], None] | None = None,
) -> Callable[[], Predictions | None] | None:
    """What asks for a new model's validation part when it is needed; None where old or new is no model of ours.

    Args:
        found: the models on the test part.
        new: what a person called the new one.
        run_root, device, progress: as for `load_predictions`.
    """
    split = found.split
    if split is None or any(found.models[role].origin == "file" for role in JUDGED):
        return None

    def ask() -> Predictions | None:
        if not len(split.indices("val")):
            return None
        asked = load_predictions({"new": new}, run_root, part="val", device=device, progress=progress)
        return asked.models["new"]

    return ask


def pictures_of(
    found: NamedModels, progress: Callable[[str, int, int], None] | None = None
) -> Callable[[], PictureFacts] | None:
    """What looks at the test pictures when it is asked; None where no model of ours was."""
    split = found.split
    if split is None:
        return None

    @cache
    def look() -> PictureFacts:
        from mptctl.inference.picture_facts import picture_facts

        return picture_facts(split, "test", progress)

    return look
