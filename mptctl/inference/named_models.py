"""From what a person names on the command line to predictions: files, run folders, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl.evaluation.predictions import Predictions, is_predictions_file, read_predictions

if TYPE_CHECKING:
    from mptctl.data.split import Split
    from mptctl.models.checkpoint import Checkpoint


@dataclass(frozen=True)
class Answers:
    """What `load_predictions` found.

    Attributes:
        models: predictions, in the order asked for.
        split: the split of the run root, where a model of ours was asked; None with files alone.
        warnings: what a reader of the numbers should know.
        unfinished: for each model, a sentence where its run is known not to have come to its end.
        identical: the first two are known to be one model.
    """

    models: list[Predictions]
    split: Split | None
    warnings: list[str]
    unfinished: list[str | None]
    identical: bool


def load_predictions(
    names: Sequence[str],
    run_root: Path,
    device: str = "auto",
    progress: Callable[[str, int, int], None] | None = None,
) -> Answers:
    """Predictions of models of any kind.

    Args:
        names: each a predictions file, a run's name, a run folder, or a ``.pt`` file of ours; a file that is not
            there is looked for below `run_root`.
        run_root: where runs and the split are; run folders of another root, named by path, bring their own.
        device: where models of ours compute.
        progress: called with (what is under way, pictures done, pictures in all).

    Raises:
        DataError, NonFiniteError: a predictions file that is missing, damaged, or holds NaN.
        DataError: the split is damaged, or the first model, which is the old one, is of another split and its
            classes are not this one's old ones.
        CheckpointError: no such model, a damaged one, or one of classes that the split does not know.
        UsageError: there is no split, or no such device.
    """
    ours = {i: name for i, name in enumerate(names) if not is_predictions_file(Path(name).expanduser())}
    if ours:
        _refuse_without_split(list(ours.values()), run_root)
    files: dict[int, Predictions] = {}
    for i, name in enumerate(names):
        if i not in ours:
            path = Path(name).expanduser()
            below = run_root / path
            files[i] = read_predictions(below if below.is_file() and not path.is_file() else path)
    if not ours:
        return Answers([files[i] for i in range(len(names))], None, [], [None] * len(names), False)

    from mptctl.models.run_folder import find_checkpoint

    paths = [find_checkpoint(name, run_root) for name in ours.values()]
    # torch is slow to import, and files need none of it.
    from mptctl.data.split import SPLIT_NAME, load_split
    from mptctl.inference.predict import one_model, predict
    from mptctl.models.checkpoint import load_checkpoint
    from mptctl.models.finished import unfinished

    checkpoints = [load_checkpoint(path) for path in paths]
    # Run folders that are named by their path are tested on the split that lies beside them.
    roots = {path.resolve().parent.parent for path in paths}
    if roots != {run_root.resolve()} and len(roots) == 1 and (found := roots.pop() / SPLIT_NAME).is_file():
        run_root = found.parent
    split = load_split(run_root)
    if 0 in ours:
        _refuse_other_old_classes(checkpoints[0], split)
    computed = dict(zip(ours, predict(checkpoints, split, device, progress), strict=True))
    warnings = [
        f"{c.path} was trained on another split than {run_root}: pictures tested here may have trained it"
        for c in checkpoints
        if c.meta.split_fingerprint not in (None, split.fingerprint)
    ]
    ends = {i: unfinished(c.path, c.meta) for i, c in zip(ours, checkpoints, strict=True)}
    warnings += [end.sentence for end in ends.values() if end is not None and not end.certain]
    states = [ends.get(i) for i in range(len(names))]
    return Answers(
        [(files | computed)[i] for i in range(len(names))],
        split,
        warnings,
        [state.sentence if state is not None and state.certain else None for state in states],
        list(ours)[:2] == [0, 1] and one_model(checkpoints[0], checkpoints[1]),
    )


def _refuse_without_split(names: Sequence[str], run_root: Path) -> None:
    """Say at once, before torch is imported, that there is no split or that the only one there is cannot be read."""
    from mptctl.data.split import SPLIT_NAME, load_split

    # Not with pathlib, which raises at a loop of links and at a folder that cannot be read.
    named = [Path(os.path.realpath(Path(name).expanduser())) for name in names]
    if not all(
        os.path.exists(path) or os.path.exists(run_root / name)
        for path, name in zip(named, names, strict=True)
    ):
        return  # a model that is not there is said first
    roots = {
        Path(os.path.realpath(run_root)),
        *(path.parent for path in named),
        *(path.parent.parent for path in named),
    }
    found = [root for root in roots if os.path.exists(root / SPLIT_NAME)]
    if len(found) <= 1:
        load_split(found[0] if found else run_root)


def _refuse_other_old_classes(old: Checkpoint, split: Split) -> None:
    """Refuse an old model that knows some of the new classes, or not all of the old ones.

    One that knows every class of the split is a model like the new one, and may be compared with it.
    """
    from mptctl.data.classes import columns_for
    from mptctl.errors import CheckpointError, DataError

    known, ours = set(old.meta.class_names), old.meta.split_fingerprint
    if known in (set(split.classes.old), set(split.classes.names)) or not known <= set(split.classes.names):
        return  # names that are not the split's are refused for every model
    try:
        columns_for(old.meta.class_names, split.classes.old, str(old.path))
    except CheckpointError as error:
        if ours in (None, split.fingerprint):
            raise
        raise DataError(
            f"{error}; it is of the split {ours[:12]}, that of {split.run_root} is {split.fingerprint[:12]}"
        ) from error
