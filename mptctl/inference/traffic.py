"""Predictions of two models for traffic without labels: files, or runs over a folder of pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mptctl.errors import UsageError
from mptctl.evaluation.reading.predictions import Predictions, build_predictions
from mptctl.inference.named_models import find_file, load_predictions
from mptctl.names import Session


def load_traffic(names: Mapping[str, str], pictures: Path | None, session: Session) -> dict[str, Predictions]:
    """Load the predictions of models by role; labels of files are not read.

    Args:
        names: by role, as `load_predictions` takes them.
        pictures: folder of pictures that runs predict; None: runs predict the test part of their split.
        session: run root, data and device.

    Raises:
        UsageError: a folder of pictures, and no run.
        MptctlError: as `load_predictions`, or as `LoadedRun.predict_folder`.
    """
    if pictures is None:
        return load_predictions(names, session, part="test", labelled=False).models
    files = {role: name for role, name in names.items() if find_file(name, session.run_root) is not None}
    if len(files) == len(names):
        raise UsageError(
            f"--pictures {pictures}: is for runs, and both models are files of predictions; pictures "
            "that a page shows are of --data-root"
        )
    # Files come first: a damaged one is reported before a run predicts all pictures.
    models = load_predictions(files, session, part="test", labelled=False).models if files else {}
    for role, name in names.items():
        if role not in files:
            models[role] = _predict_pictures(name, pictures, session)
    return models


def _predict_pictures(run: str, pictures: Path, session: Session) -> Predictions:
    """Predict a folder of pictures without labels by a run."""
    from mptctl.inference.loaded import load_run

    found = load_run(run, session).predict_folder(pictures, progress=session.progress)
    labels_nobody_reads = np.full(len(found), found.classes[0])
    return build_predictions(
        run, found.ids, labels_nobody_reads, None, found.logits, found.classes, "checkpoint"
    )
