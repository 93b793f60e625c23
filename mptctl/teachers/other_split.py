"""Refuses teachers that were trained on a contradicting split, and warns of those from another one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mptctl.data.sources import CIFAR_SIZES
from mptctl.data.split import Split
from mptctl.data.split_file import SPLIT_NAME, SplitFile, SplitRequest, parse_split_file
from mptctl.errors import CheckpointError, DataError
from mptctl.models.checkpoint import CheckpointMeta


def check_teacher_splits(split: Split, metas: Mapping[Path, CheckpointMeta]) -> list[str]:
    """Warn of each teacher that may have been trained on pictures that this split holds out.

    There is no warning of an imported model, whose split is not known, nor if the teacher's split has the
    same pictures in the same parts, as splits of other old classes have.

    Args:
        split: of the run.
        metas: meta of each teacher's checkpoint, by its path.

    Raises:
        CheckpointError: a teacher's split divides the same pictures into other parts.
    """
    warnings = [_check_teacher(path, meta, split) for path, meta in metas.items()]
    return [warning for warning in warnings if warning is not None]


def _check_teacher(path: Path, meta: CheckpointMeta, split: Split) -> str | None:
    """Return the warning for one teacher, or None; errors: see `check_teacher_splits`."""
    if meta.split_fingerprint in (None, split.fingerprint):
        return None
    of_teacher = _split_beside(path, meta)
    if of_teacher is not None:
        if split.file.manifest_fingerprint == of_teacher.manifest_fingerprint:
            return None
        if _trains_on_held_out(of_teacher.request, split.file.request):
            raise CheckpointError(
                f"{path}: its split holds out other pictures ({_division(of_teacher.request)}) than that of "
                f"{split.run_root} ({_division(split.file.request)}), so it may have trained on those held "
                "out here; train it on this split, or use the --run-root of its own"
            )
    return (
        f"warning: {path}: was trained on another split than that of {split.run_root}: pictures held out "
        "here may have trained it"
    )


def _split_beside(path: Path, meta: CheckpointMeta) -> SplitFile | None:
    """Read a teacher's split from the copy beside its checkpoint; None without a copy that fits."""
    beside = path.parent / SPLIT_NAME
    try:
        file = parse_split_file(beside.read_bytes(), beside)
    except (OSError, DataError):
        return None
    return file if file.fingerprint == meta.split_fingerprint else None


def _trains_on_held_out(of_teacher: SplitRequest, of_run: SplitRequest) -> bool:
    """Tell whether a teacher's split surely trains on pictures of the same source that the run's holds out.

    A split that holds out more, with the same seed, holds out everything that the other one does, so a
    teacher of it is safe. A folder of pictures in another place is not taken for the same source: it may be
    an earlier state of the data, on which an old model in production was trained.
    """
    if (of_teacher.source, of_teacher.place) != (of_run.source, of_run.place):
        return False
    if of_run.source not in CIFAR_SIZES and of_teacher.data_root != of_run.data_root:
        return False
    return of_teacher.seed != of_run.seed or of_teacher.val_fraction < of_run.val_fraction


def _division(request: SplitRequest) -> str:
    """The settings that divide the pictures, for a message."""
    return f"seed {request.seed}, val_fraction {request.val_fraction:g}"
