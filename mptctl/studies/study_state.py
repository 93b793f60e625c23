"""The state of a study: its splits, and where each of its runs stands; what differs is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from mptctl.data.held_split import relocate
from mptctl.data.split import Split, load_split, make_split, save_split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.errors import CheckpointError, DataError
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint
from mptctl.models.lock import wait_until_free
from mptctl.models.run_folder import RunDir
from mptctl.names import Progress, Role, tell_nobody
from mptctl.studies.answers_file import read_answers
from mptctl.studies.study_plan import PlannedRun, place_of
from mptctl.studies.study_split import StudySplit
from mptctl.training.resume import newest_checkpoint, refuse_differences

# Of a run: not there, interrupted, finished but not asked for its answers yet, or done.
Standing = Literal["missing", "begun", "unanswered", "done"]
# Seconds in which what a killed study has left ends at the latest, on a busy machine.
DYING_SECONDS = 5.0


def existing_split(wanted: StudySplit, folder: Path, seed: int, data_root: Path | None) -> Split | None:
    """A split of a seed, where there is one, with its pictures where they are now.

    Args:
        wanted: what the study says of it.
        folder: where it lies.
        seed: of the split.
        data_root: folder of the data; None: wherever the split has found them.

    Raises:
        CheckpointError: it is another split than the study's.
        DataError: it is damaged.
    """
    if not (folder / SPLIT_NAME).exists():
        return None
    split = load_split(folder)
    asked = wanted.request(seed, data_root)
    root = asked.pop("data_root")
    if data_root is None and wanted.data_root is None:
        root = None  # wherever the split has found them
    if root is not None and split.file.request.data_root is not None:
        asked["data_root"] = str(root)
        if asked["data_root"] != split.file.request.data_root:
            with suppress(DataError):  # no: other pictures, as is said below
                split = relocate(split, root)
    there = split.file.request.model_dump()
    if asked["val_fraction"] is None:
        del asked["val_fraction"]
    old_names = asked.pop("old_names")
    lines = [f"{key}: {there[key]} -> {value}" for key, value in asked.items() if there[key] != value]
    if split.file.request.old_names != old_names:
        lines.append("other old classes were named")
    if lines:
        raise CheckpointError(
            f"{folder / SPLIT_NAME}: is another split than the study's ({'; '.join(lines)}); use another "
            "--run-root"
        )
    return split


def make_splits(
    stages: Mapping[str, StudySplit],
    run_root: Path,
    seeds: Iterable[int],
    data_root: Path | None,
    progress: Progress = tell_nobody,
    *,
    flat: bool = False,
) -> dict[str, Split]:
    """The splits of each seed by their places, made where they are not there.

    Args:
        stages: what the study says of them, by folder below that of the seed.
        run_root: of the study.
        seeds: of the splits.
        data_root, progress: as for `existing_split` and `make_split`, whose errors it raises.
        flat: the one seed's lie in the run root itself.
    """
    splits: dict[str, Split] = {}
    for seed in seeds:
        for stage, wanted in stages.items():
            place = place_of(seed, stage, flat=flat)
            existing = existing_split(wanted, run_root / place, seed, data_root)
            if existing is not None and existing.file != load_split(run_root / place).file:
                save_split(existing)  # the processes of runs read it there
            splits[place] = existing or make_split(
                run_root=run_root / place,
                metadata=None if wanted.metadata is None else Path(wanted.metadata),
                verify=wanted.verify,
                on_bad=wanted.on_bad,
                on_duplicates=wanted.on_duplicates,
                progress=progress,
                **wanted.request(seed, data_root),
            )
    return splits


def standings(runs: Sequence[PlannedRun], splits: Mapping[str, Split]) -> dict[str, Standing]:
    """The standing of each run of a study, by its key.

    Args:
        runs: each after its teachers.
        splits: by their places; the runs of one that is not there are missing.

    Raises:
        CheckpointError: a run that is there is not the planned one: of another recipe, split or teachers.
        UsageError: a folder where a run would be written holds something else, or is written by somebody
            else.
    """
    standing: dict[str, Standing] = {}
    digests: dict[str, str] = {}
    for run in runs:
        split = splits.get(run.place)
        standing[run.key] = "missing" if split is None else _check_run(run, split, digests)
    return standing


def _check_run(run: PlannedRun, split: Split, digests: dict[str, str]) -> Standing:
    """The standing of a run whose teachers were looked at; adds the digest of a finished one to `digests`."""
    request = run.request(split)
    folder = RunDir(request.folder)
    # A study that was killed has workers that end within two seconds.
    wait_until_free(folder.path, at_most=DYING_SECONDS)
    if not request.resume and not folder.best.exists():
        folder.refuse_unusable("replace")  # what a run that was killed early on has left goes
        return "missing"
    folder.refuse_unusable("keep")
    untrained = [key for key in run.teachers if key not in digests]
    if untrained:
        raise CheckpointError(
            f"{folder.path}: is there, and its teacher {untrained[0]} is not finished; put that run back, or "
            f"move {run.key} away, or use another --run-root"
        )
    finished = folder.is_finished()
    checkpoint = load_checkpoint(folder.best) if finished else newest_checkpoint(folder)[0]
    planned = CheckpointMeta(
        recipe=run.recipe,
        class_names=split.classes.names[: request.num_classes],
        num_old=split.classes.num_old,
        split_fingerprint=split.fingerprint,
        teachers={role: digests[key] for role, key in _roles(run).items()},
    )
    try:
        refuse_differences(checkpoint.meta, planned, checkpoint.path)
    except CheckpointError as error:
        reason = str(error).rpartition("; resume it")[0]
        raise CheckpointError(f"{reason}; move {run.key} away, or use another --run-root") from error
    if not finished:
        return "begun"
    digests[run.key] = checkpoint.digest
    answers = read_answers(folder.path)
    return "done" if answers is not None and answers.head.digest == checkpoint.digest else "unanswered"


def _roles(run: PlannedRun) -> dict[str, str]:
    """Keys of a run's teachers by the names that its checkpoints give them; see `Teachers`."""
    keys = list(run.teachers)
    named = {Role.OLD.value: keys.pop(0)} if run.old is not None else {}
    names = [Role.REF.value] if len(keys) == 1 else [f"{Role.REF}{i}" for i in range(len(keys))]
    return named | dict(zip(names, keys, strict=True))
