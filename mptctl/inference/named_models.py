"""Loads predictions of the models named on the command line: files of predictions, runs, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.reading.predictions import Predictions, build_predictions, read_predictions
from mptctl.evaluation.reading.readers import SUFFIXES, count_notes, has_predictions, is_predictions_file
from mptctl.names import ExportFormat, Part, Session

if TYPE_CHECKING:
    from mptctl.data.split import Split
    from mptctl.models.checkpoint import Checkpoint

# Suffixes of files of models; weights may have other suffixes too.
MODEL_SUFFIXES = (".pt", *(f".{form}" for form in get_args(ExportFormat)))


@dataclass(frozen=True)
class NamedModels:
    """Predictions of the models of a comparison. "Of ours" means a checkpoint, not a predictions file.

    Attributes:
        models: predictions by role, in the order asked for.
        split: the split of the models of ours; None if all are files.
        warnings: cautions for a reader of the numbers.
        unfinished: sentences on `old` and `new` if their runs are known to be unfinished.
        identical: True if `old` and `new` are known to be the same model.
        digests: digest of the checkpoint of each model of ours, by role.
    """

    models: dict[str, Predictions]
    split: Split | None = None
    warnings: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    identical: bool = False
    digests: Mapping[str, str] = field(default_factory=dict)


def load_predictions(
    names: Mapping[str, str],
    session: Session,
    *,
    part: Part,
    renamed: frozenset[str] = frozenset(),
    labelled: bool = True,
) -> NamedModels:
    """Load predictions from files, and compute predictions of checkpoints.

    Args:
        names: by role, such as `old` and `new`: a predictions file, a run's name, a run folder, or a
            checkpoint or export. Relative files are also looked for below the run root.
        session: run root, data and device. Run folders of another root have the split of that root.
        part: part of the split to predict with checkpoints; a predictions file is used as it is.
        renamed: class names of checkpoints that the split need not know, because a class map renames them.
        labelled: False: files need no labels.

    Raises:
        DataError: a predictions file or the split is missing or damaged, or `old` was trained on another
            split with other old classes.
        NonFiniteError: predictions are NaN.
        CheckpointError: a checkpoint is missing, damaged, or knows classes that the split does not.
        UsageError: there is no split, or no such device.
    """
    return _describe(_load(names, session, part, renamed, labelled))


def load_updates(
    old: str,
    news: Sequence[str],
    session: Session,
    renamed: frozenset[str] = frozenset(),
) -> list[NamedModels]:
    """Load predictions of the test part for each new model; the old model is read once.

    Args:
        old: name of the old model.
        news: names of the new models, each for the role `new`.
        session, renamed: as for `load_predictions`.

    Returns:
        One record for each new model, in order.

    Raises:
        UsageError: a new model is named twice.
        DataError, NonFiniteError, CheckpointError, UsageError: as `load_predictions`.
    """
    if len(news) > 1:
        _refuse_duplicates(news, session.run_root)
    new_by_key = {f"new {number}": new for number, new in enumerate(news)}
    loaded = _load({"old": old, **new_by_key}, session, "test", renamed)
    return [_describe(loaded.for_roles({"old": "old", "new": key})) for key in new_by_key]


def load_traffic(names: Mapping[str, str], pictures: Path | None, session: Session) -> dict[str, Predictions]:
    """Load the predictions of two models, by role, for traffic without labels; labels of files are not read.

    Args:
        names: by role, as `load_predictions` takes them.
        pictures: folder of pictures that runs predict; None: runs predict the test part of their split.
        session: run root, data and device.

    Raises:
        UsageError: a folder of pictures, and no run.
        MptctlError: as `load_predictions`, or as `LoadedRun.predict_folder`.
    """
    files = {role: name for role, name in names.items() if find_file(name, session.run_root) is not None}
    if pictures is None:
        return load_predictions(names, session, part="test", labelled=False).models
    if len(files) == len(names):
        raise UsageError(
            f"--pictures {pictures}: is for runs, and both models are files of predictions; pictures "
            "that a page shows are of --data-root"
        )
    # Files come first: a damaged one is reported before a run predicts all pictures.
    models = load_predictions(files, session, part="test", labelled=False).models
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


@dataclass(frozen=True)
class _Loaded:
    """Loaded models by keys that need not be roles; checkpoints and split are those of models of ours."""

    models: dict[str, Predictions]
    split: Split | None
    checkpoints: dict[str, Checkpoint]

    def for_roles(self, key_by_role: Mapping[str, str]) -> _Loaded:
        """Some of the models, by their roles."""
        ours = {role: key for role, key in key_by_role.items() if key in self.checkpoints}
        return _Loaded(
            {role: self.models[key] for role, key in key_by_role.items()},
            self.split,
            {role: self.checkpoints[key] for role, key in ours.items()},
        )


def _describe(loaded: _Loaded) -> NamedModels:
    """Collect warnings about models that are loaded by their roles."""
    models, split, checkpoints = loaded.models, loaded.split, loaded.checkpoints
    notes = []
    for role, model in models.items():
        count = 0 if role in checkpoints else count_notes(Path(model.name))
        if count:
            files = "file" if count == 1 else "files"
            notes.append(f"{model.name}: {count} {files} of other writers passed over")
    if split is None or not checkpoints:
        return NamedModels(models, warnings=tuple(notes))
    from mptctl.inference.own_models import JUDGED, find_doubts
    from mptctl.inference.predict import is_same_model

    warnings, unfinished = find_doubts(checkpoints, split)
    both_ours = all(role in checkpoints for role in JUDGED)
    return NamedModels(
        models=models,
        split=split,
        warnings=(*warnings, *notes),
        unfinished=tuple(unfinished),
        identical=both_ours and is_same_model(checkpoints["old"], checkpoints["new"]),
        digests={role: checkpoint.digest for role, checkpoint in checkpoints.items()},
    )


def _load(
    names: Mapping[str, str], session: Session, part: Part, renamed: frozenset[str], labelled: bool = True
) -> _Loaded:
    """Read files and compute predictions of checkpoints; arguments and errors as `load_predictions`."""
    run_root = session.run_root
    files = {role: find_file(name, run_root) for role, name in names.items()}
    ours = {role: names[role] for role, file in files.items() if file is None}
    if ours:
        from mptctl.inference.own_models import find_split_of_models, refuse_other_old_classes
        from mptctl.models.run_folder import find_checkpoint

        # Before torch is imported, which takes seconds.
        _refuse_other_files(ours.values(), run_root)
        paths = {role: find_checkpoint(name, run_root) for role, name in ours.items()}
        split = find_split_of_models(list(paths.values()), session)
    models = {
        role: read_predictions(file, labelled=labelled) for role, file in files.items() if file is not None
    }
    if not ours:
        return _Loaded(models, None, {})
    from mptctl.inference.predict import predict
    from mptctl.models.checkpoint import load_checkpoint

    checkpoints = {role: load_checkpoint(path) for role, path in paths.items()}
    if "old" in checkpoints and not renamed.intersection(checkpoints["old"].meta.class_names):
        refuse_other_old_classes(checkpoints["old"], split)
    models |= predict(checkpoints, split, session, part=part, renamed=renamed)
    return _Loaded({role: models[role] for role in names}, split, checkpoints)


def find_file(name: str, run_root: Path) -> Path | None:
    """The path of a predictions file, as named or below the run root; None for a name of no such file."""
    path = Path(name).expanduser()
    if not is_predictions_file(path):
        return None
    below = run_root / path
    return below if has_predictions(below) and not has_predictions(path) else path


def _refuse_other_files(names: Iterable[str], run_root: Path) -> None:
    """Refuse files that are neither models nor predictions; a name without a file passes.

    Raises:
        UsageError: a file is neither; the message names suffixes that can be read.
        DataError: a device or a FIFO.
    """
    for name in names:
        places = (run_root / name, Path(name).expanduser())
        path = next((place for place in places if os.path.exists(place)), None)
        if path is None or os.path.isdir(path) or path.suffix.lower() in MODEL_SUFFIXES:
            continue
        if not os.path.isfile(path):
            raise DataError(
                f"{path}: is no regular file, and may have no end; write it into a file ({SUFFIXES})"
            )
        try:
            with open(path, "rb") as file:
                head = file.read(2)
        except OSError:
            continue  # reading the checkpoint later reports the reason
        # Weights may have any suffix; torch saves them as an archive or a pickle.
        if head != b"PK" and head[:1] != b"\x80":
            raise UsageError(
                f"{path}: is neither a model nor predictions; name a run, a model "
                f"({', '.join(MODEL_SUFFIXES)}), or predictions ({SUFFIXES})"
            )


def _refuse_duplicates(news: Sequence[str], run_root: Path) -> None:
    """Refuse a new model that is named twice, perhaps by different names.

    Raises:
        UsageError: two names stand for the same file.
        CheckpointError: there is no model of a name.
    """
    from mptctl.models.run_folder import find_checkpoint

    seen: dict[str, str] = {}
    for new in news:
        path = os.path.realpath(find_file(new, run_root) or find_checkpoint(new, run_root))
        if path in seen:
            other = "" if seen[path] == new else f" (as {seen[path]} before)"
            raise UsageError(f"{new}: is named twice as NEW{other}; name each replacement once")
        seen[path] = new
