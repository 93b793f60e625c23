"""Finds checkpoints by name, with their split, and warns about their training.

torch takes seconds to import. So functions import what needs torch after they have checked that files exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl.data.classes import columns_for
from mptctl.data.held_split import find_split, relocate
from mptctl.data.split import Split, load_split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.errors import CheckpointError, DataError
from mptctl.models.run_folder import find_checkpoint
from mptctl.names import Session

if TYPE_CHECKING:
    from mptctl.models.checkpoint import Checkpoint

# Roles of the compared models. A comparison reports their unfinished runs apart from its warnings.
JUDGED = ("old", "new")


def load_named_checkpoints(names: Sequence[str], session: Session) -> tuple[dict[str, Checkpoint], Split]:
    """Load checkpoints by name, and the split on which they are tested.

    Args:
        names: runs' names, run folders, or checkpoint files.
        session: run root and data, as for `load_predictions`.

    Raises:
        CheckpointError: a checkpoint is missing or damaged.
        UsageError: there is no split.
        DataError: the split is damaged, or the session's pictures are not those of the split.
    """
    paths = {name: find_checkpoint(name, session.run_root) for name in names}
    split = find_split_of_models(list(paths.values()), session)
    from mptctl.models.checkpoint import load_checkpoint

    return {name: load_checkpoint(path) for name, path in paths.items()}, split


def find_split_of_models(paths: list[Path], session: Session) -> Split:
    """Find the split of checkpoints, with its pictures in the session's data root.

    Args:
        paths: of the checkpoints.
        session: run root and data root.

    Raises:
        UsageError: there is no split.
        DataError: the split is damaged, or the data root has other pictures.
    """
    split = None
    run_roots = {path.resolve().parent.parent for path in paths}
    if len(run_roots) == 1:  # the common run root of the runs comes before the session's
        (common_root,) = run_roots
        if common_root != session.run_root.resolve() and (common_root / SPLIT_NAME).is_file():
            split = load_split(common_root)
    split = split or find_split(session.run_root, [path.resolve().parent for path in paths])
    return relocate(split, session.data_root)


def find_doubts(checkpoints: Mapping[str, Checkpoint], split: Split) -> tuple[list[str], list[str]]:
    """Describe what is doubtful about checkpoints: another split in training, or an unfinished run.

    Args:
        checkpoints: by role.
        split: the split on which they are tested.

    Returns:
        Warnings, and sentences on models of `JUDGED` whose runs are known to be unfinished.
    """
    from mptctl.models.finished import describe_unfinished

    warnings = [
        f"{c.path} was trained on another split than {split.run_root}: pictures tested here may have trained "
        "it"
        for c in checkpoints.values()
        if c.meta.split_fingerprint not in (None, split.fingerprint)
    ]
    ends = {role: describe_unfinished(c.path, c.meta) for role, c in checkpoints.items()}
    unfinished = {role: end.sentence for role, end in ends.items() if end is not None and end.certain}
    warnings += [end.sentence for end in ends.values() if end is not None and not end.certain]
    warnings += [sentence for role, sentence in unfinished.items() if role not in JUDGED]
    return warnings, [unfinished[role] for role in JUDGED if role in unfinished]


def refuse_other_old_classes(old: Checkpoint, split: Split) -> None:
    """Refuse an old model unless it knows exactly the old classes, or all classes of the split.

    Class names that the split does not have are not refused here; `predict` refuses them for every model.

    Raises:
        CheckpointError: the classes differ.
        DataError: the classes differ, and the model was trained on another split.
    """
    known = set(old.meta.class_names)
    has_unknown_names = not known <= set(split.classes.names)
    if has_unknown_names or known == set(split.classes.old) or known == set(split.classes.names):
        return
    trained_on = old.meta.split_fingerprint
    try:
        # Always raises here; the message says which classes are missing or too many.
        columns_for(old.meta.class_names, split.classes.old, str(old.path))
    except CheckpointError as error:
        if trained_on in (None, split.fingerprint):
            raise
        raise DataError(
            f"{error}; it is of the split {trained_on[:12]}, that of {split.run_root} is "
            f"{split.fingerprint[:12]}"
        ) from error
