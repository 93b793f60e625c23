"""Teachers of another split than the run's: which are refused, and which bring a warning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mptctl.data.sources import CIFAR_SIZES
from mptctl.data.split import Split
from mptctl.data.split_file import SPLIT_NAME, SplitFile, SplitRequest, parse_split_file
from mptctl.errors import CheckpointError, DataError
from mptctl.models.checkpoint import CheckpointMeta


def judge_splits(split: Split, metas: Mapping[Path, CheckpointMeta]) -> list[str]:
    """A warning for each teacher that may have been trained on pictures that this split holds out.

    Nothing is said of an imported model, of which no split is known, nor where the teacher's split has the
    same pictures in the same parts, as the generations of a chain have, and splits of other old classes.

    Args:
        split: of the run.
        metas: what each teacher says of itself, by its path.

    Raises:
        CheckpointError: a teacher's split divides the same source otherwise.
    """
    warnings = [_warning(path, meta, split) for path, meta in metas.items()]
    return [warning for warning in warnings if warning is not None]


def _warning(path: Path, meta: CheckpointMeta, split: Split) -> str | None:
    """The warning for one teacher; raises where its split divides the same source otherwise."""
    if meta.split_fingerprint in (None, split.fingerprint, split.file.extends):
        return None
    theirs = _split_beside(path, meta)
    if theirs is not None:
        if (
            split.fingerprint == theirs.extends
            or split.file.manifest_fingerprint == theirs.manifest_fingerprint
        ):
            return None
        if _divides_otherwise(theirs.request, split.file.request):
            raise CheckpointError(
                f"{path}: its split holds out other pictures ({_division(theirs.request)}) than that of "
                f"{split.run_root} ({_division(split.file.request)}), so it may have trained on those held "
                "out here; train it on this split, or use the --run-root of its own"
            )
    return (
        f"warning: {path}: was trained on another split than that of {split.run_root}: pictures held out "
        "here may have trained it"
    )


def _split_beside(path: Path, meta: CheckpointMeta) -> SplitFile | None:
    """The split that a run folder keeps a copy of; None where a checkpoint lies alone."""
    beside = path.parent / SPLIT_NAME
    try:
        file = parse_split_file(beside.read_bytes(), beside)
    except (OSError, DataError):
        return None
    return file if file.fingerprint == meta.split_fingerprint else None


def _divides_otherwise(theirs: SplitRequest, ours: SplitRequest) -> bool:
    """Says if two splits are of one source, and the one trains on what the other holds out.

    One that holds out more with the same seed holds out what the other does, and more. A folder of pictures
    in another place may be an earlier state of the data, which an old model in production was trained on.
    """
    if (theirs.source, theirs.place) != (ours.source, ours.place):
        return False
    if ours.source not in CIFAR_SIZES and theirs.data_root != ours.data_root:
        return False
    return theirs.seed != ours.seed or theirs.val_fraction < ours.val_fraction


def _division(request: SplitRequest) -> str:
    return f"seed {request.seed}, val_fraction {request.val_fraction:g}"
