"""Models of ours by what a person calls them: their checkpoints, their split, their predictions, and doubts.

torch, which takes seconds to import, comes when checkpoints are read: what is not there is said before.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl.data.classes import columns_for
from mptctl.data.derived_splits import find_own_split
from mptctl.data.held_split import find_split, holds_split, refuse_no_split, relocate
from mptctl.data.split import Split, load_split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.errors import CheckpointError, DataError
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.models.run_folder import find_checkpoint
from mptctl.names import Part, Session

if TYPE_CHECKING:
    from mptctl.models.checkpoint import Checkpoint


def named_checkpoints(names: Sequence[str], session: Session) -> tuple[dict[str, Checkpoint], Split]:
    """Models of ours by what a person calls them, and the split that they are tested on.

    Args:
        names: runs' names, run folders, or ``.pt`` files of ours.
        session: where runs, the split and its pictures are, as for `load_predictions`.

    Raises:
        CheckpointError: no such model, or a damaged one.
        UsageError, DataError: there is no split, or a damaged one, or other pictures than its own.
    """
    run_root = session.run_root
    refuse_without_split(names, run_root)
    paths = {name: find_checkpoint(name, run_root) for name in names}
    return _load_checkpoints(paths), split_of(list(paths.values()), session)


def split_of(paths: list[Path], session: Session) -> Split:
    """The split of models: of the run root; of one other folder that all lie in; or the one that they hold.

    Its pictures are where the session says.
    """
    return relocate(_split_of(paths, session.run_root), session.data_root)


def _split_of(paths: list[Path], run_root: Path) -> Split:
    own = find_own_split(paths, run_root)
    if own is not None:
        return own
    run_roots = {path.resolve().parent.parent for path in paths}
    if len(run_roots) == 1:
        (common,) = run_roots
        if common != run_root.resolve() and (common / SPLIT_NAME).is_file():
            return load_split(common)
    return find_split(run_root, [path.resolve().parent for path in paths])


def predict_named(
    names: Mapping[str, str], session: Session, *, part: Part, renamed: frozenset[str]
) -> tuple[dict[str, Checkpoint], Split, dict[str, Predictions]]:
    """Checkpoints of models of ours, their split, and their predictions for a part of it.

    Args:
        names: of models of ours, by role.
        session, part, renamed: as for `load_predictions`, whose errors it raises.
    """
    paths = {role: find_checkpoint(name, session.run_root) for role, name in names.items()}
    from mptctl.inference.predict import predict

    checkpoints = _load_checkpoints(paths)
    split = split_of(list(paths.values()), session)
    if "old" in checkpoints and not renamed.intersection(checkpoints["old"].meta.class_names):
        _refuse_other_old_classes(checkpoints["old"], split)
    return checkpoints, split, predict(checkpoints, split, session, part=part, renamed=renamed)


def _load_checkpoints(paths: Mapping[str, Path]) -> dict[str, Checkpoint]:
    from mptctl.models.checkpoint import load_checkpoint

    return {name: load_checkpoint(path) for name, path in paths.items()}


def find_doubts(
    checkpoints: Mapping[str, Checkpoint], split: Split, judged: Collection[str]
) -> tuple[list[str], list[str]]:
    """Warnings on models of ours, and sentences on those that are judged and whose run is not finished.

    Args:
        checkpoints: by role.
        split: the split that they are tested on.
        judged: roles of models whose unfinished run is said apart from the warnings.
    """
    from mptctl.models.finished import describe_unfinished

    warnings = [
        f"{c.path} was trained on another split than {split.run_root}: pictures tested here may have trained "
        "it"
        for c in checkpoints.values()
        if c.meta.split_fingerprint not in (None, split.fingerprint, split.file.extends)
    ]
    ends = {
        role: end
        for role, c in checkpoints.items()
        if (end := describe_unfinished(c.path, c.meta)) is not None
    }
    warnings += [end.sentence for end in ends.values() if not end.certain]
    warnings += [end.sentence for role, end in ends.items() if end.certain and role not in judged]
    return warnings, [ends[role].sentence for role in judged if role in ends and ends[role].certain]


def _refuse_other_old_classes(old: Checkpoint, split: Split) -> None:
    """Refuse an old model that knows some of the new classes, or not all of the old ones.

    One that knows every class of the split is a model like the new one, and may be compared with it. Names
    that are not the split's are refused elsewhere, for every model.
    """
    known = set(old.meta.class_names)
    knows_others = not known <= set(split.classes.names)
    if knows_others or known == set(split.classes.old) or known == set(split.classes.names):
        return
    trained_on = old.meta.split_fingerprint
    try:
        # Raises, since the classes are not the old ones, and says which are missing or too many.
        columns_for(old.meta.class_names, split.classes.old, str(old.path))
    except CheckpointError as error:
        if trained_on in (None, split.fingerprint):
            raise
        raise DataError(
            f"{error}; it is of the split {trained_on[:12]}, that of {split.run_root} is "
            f"{split.fingerprint[:12]}"
        ) from error


def refuse_without_split(names: Sequence[str], run_root: Path) -> None:
    """Refuse at once, before torch is imported, where there is no split or the only one cannot be read.

    A split is looked for in the run root, and in and beside each run folder that is named by its path or by
    that of a checkpoint in it. Of several splits `split_of` chooses later, when it knows the checkpoints.

    Raises:
        UsageError, DataError: there is none, or it is damaged.
    """
    # Not with pathlib, which raises at a loop of links and at a folder that cannot be read.
    named = [Path(os.path.realpath(Path(name).expanduser())) for name in names]
    if not all(
        os.path.exists(path) or os.path.exists(run_root / name)
        for path, name in zip(named, names, strict=True)
    ):
        return  # a model that is not there is said first
    if_run_folders = {path.parent for path in named}
    if_checkpoints = {path.parent.parent for path in named}
    roots = {Path(os.path.realpath(run_root)), *if_run_folders, *if_checkpoints}
    with_split = [root for root in roots if os.path.exists(root / SPLIT_NAME)]
    below = {Path(os.path.realpath(run_root / name)) for name in names}
    folders = [*below, *named]
    if not with_split and not any(map(holds_split, folders)):
        refuse_no_split(run_root, folders)
    if len(with_split) == 1:
        load_split(with_split[0])
