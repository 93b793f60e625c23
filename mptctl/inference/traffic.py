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
    runs = {role: name for role, name in names.items() if find_file(name, session.run_root) is None}
    if not runs:
        raise UsageError(
            f"--pictures {pictures}: is for runs, and both models are files of predictions; leave it out"
        )
    files = {role: name for role, name in names.items() if role not in runs}
    models = load_predictions(files, session, part="test", labelled=False).models if files else {}
    from mptctl.inference.loaded import load_run

    for role, name in runs.items():
        found = load_run(name, session).predict_folder(pictures, progress=session.progress)
        labels = np.full(len(found), found.classes[0])
        models[role] = build_predictions(
            name, found.ids, labels, None, found.logits, found.classes, "checkpoint"
        )
    return {role: models[role] for role in names}
