"""The state of a study on disk: its splits and the standing of its runs; others than planned are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from mptctl.data.held_split import relocate
from mptctl.data.split import Split, load_split, make_split, save_split
from mptctl.data.split_file import SPLIT_NAME, SplitRequest
from mptctl.errors import CheckpointError, DataError
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.lock import wait_until_free
from mptctl.models.run_folder import RunDir
from mptctl.names import Progress, Role, tell_nobody
from mptctl.studies.answers_file import read_answers
from mptctl.studies.study_file import Study
from mptctl.studies.study_plan import PlannedRun
from mptctl.studies.study_split import StudySplit
from mptctl.teachers.source import names_of_references
from mptctl.training.assemble import build_meta
from mptctl.training.resume import newest_checkpoint, refuse_other_run

# Of a run: not there; interrupted; trained, but without predictions; or done.
Standing = Literal["missing", "begun", "unanswered", "done"]
# Seconds within which the workers of a killed study end, on a busy machine.
DYING_SECONDS = 5.0


def existing_split(wanted: StudySplit, folder: Path, seed: int, data_root: Path | None) -> Split | None:
    """Load the split in a folder, with its pictures where they are now; None where there is none.

    Args:
        wanted: the split that the study describes.
        folder: of the split.
        seed: of the split.
        data_root: folder of the pictures; None: the study's own, or else where the split was made.

    Raises:
        CheckpointError: the split in the folder is not the one that the study describes.
        DataError: the split is damaged.
    """
    if not (folder / SPLIT_NAME).exists():
        return None
    split = load_split(folder)
    expected = wanted.request(seed, data_root)
    # Compared only where both have one, and somebody named it: the default is where this machine has data.
    root = expected.pop("data_root")
    is_named = data_root is not None or wanted.data_root is not None
    before = split.file.request.data_root
    if is_named and root is not None and before is not None:
        expected["data_root"] = str(root)
        if before != str(root):
            with suppress(DataError):  # that folder has other pictures, which the difference below says
                split = relocate(split, root)
    differences = _differences(split.file.request, expected)
    if differences:
        raise CheckpointError(
            f"{folder / SPLIT_NAME}: is another split than the study's ({'; '.join(differences)}); use "
            "another --run-root"
        )
    return split


def _differences(request: SplitRequest, expected: Mapping[str, Any]) -> list[str]:
    """Name the arguments of a split that are not the expected ones; no expected val_fraction allows any."""
    found = request.model_dump()
    compared = expected.keys() - {"old_names"}
    if expected["val_fraction"] is None:
        compared.remove("val_fraction")
    lines = [
        f"{key}: {found[key]} -> {value}"
        for key, value in expected.items()
        if key in compared and found[key] != value
    ]
    if request.old_names != expected["old_names"]:
        lines.append("other old classes were named")
    return lines


def make_splits(
    study: Study,
    run_root: Path,
    seeds: Iterable[int],
    data_root: Path | None,
    progress: Progress = tell_nobody,
) -> dict[str, Split]:
    """Load the split of each seed, and make and write those that are missing.

    A split whose pictures have moved is written again, with their new folder.

    Args:
        study: describes the split.
        run_root: of the study.
        seeds: of the study.
        data_root, progress: as for `existing_split` and `make_split`, whose errors are raised.

    Returns:
        The splits by their folders, relative to the run root.
    """
    wanted = study.file.split
    splits: dict[str, Split] = {}
    for seed in seeds:
        folder = study.folder_of(seed)
        existing = existing_split(wanted, run_root / folder, seed, data_root)
        # The processes of runs read the file, so it has to say where the pictures are now.
        if existing is not None and existing.file != load_split(run_root / folder).file:
            save_split(existing)
        splits[folder] = existing or make_split(
            run_root=run_root / folder,
            metadata=None if wanted.metadata is None else Path(wanted.metadata),
            verify=wanted.verify,
            on_bad=wanted.on_bad,
            on_duplicates=wanted.on_duplicates,
            progress=progress,
            **wanted.request(seed, data_root),
        )
    return splits


def find_standings(runs: Sequence[PlannedRun], splits: Mapping[str, Split]) -> dict[str, Standing]:
    """Find the standing of each run of a study, by its key.

    Args:
        runs: each after its teachers.
        splits: by their folders; runs whose split does not exist are missing.

    Raises:
        CheckpointError: an existing run is not the planned one: of another recipe, split or teachers.
        UsageError: the folder of a run holds something else, or another process writes into it.
    """
    standing: dict[str, Standing] = {}
    digests: dict[str, str] = {}
    for run in runs:
        split = splits.get(run.split_folder)
        standing[run.key] = "missing" if split is None else _check_run(run, split, digests)
    return standing


def _check_run(run: PlannedRun, split: Split, digests: dict[str, str]) -> Standing:
    """Find the standing of a run on an existing split.

    Args:
        run: whose teachers were checked before.
        split: of the run.
        digests: of finished runs, by their keys; that of this run is added if it is finished.
    """
    request = run.request(split)
    folder = RunDir(request.folder)
    # The workers of a study that was killed go on for up to two seconds.
    wait_until_free(folder.path, at_most=DYING_SECONDS)
    if not request.resume and not folder.best.exists():
        folder.refuse_unusable("replace")  # files of a run that was killed early may be replaced
        return "missing"
    folder.refuse_unusable("keep")
    teachers = _digests_of_teachers(run, folder, digests)
    finished = folder.is_finished()
    checkpoint = load_checkpoint(folder.best) if finished else newest_checkpoint(folder)
    # A kept run does not grow, so a longer recipe is that of another run.
    advice = f"move {run.key} away, or use another --run-root"
    refuse_other_run(checkpoint.meta, build_meta(request, teachers), checkpoint.path, advice)
    if not finished:
        return "begun"
    digests[run.key] = checkpoint.digest
    if run.is_trial:
        return "done"  # its answers are never asked for
    answers = read_answers(folder.path)
    return "done" if answers is not None and answers.head.digest == checkpoint.digest else "unanswered"


def _digests_of_teachers(run: PlannedRun, folder: RunDir, digests: Mapping[str, str]) -> dict[str, str]:
    """The digests of a run's teachers, by their names in a checkpoint.

    Args:
        run: as planned.
        folder: of the run, which is there.
        digests: of finished runs, by their keys.

    Raises:
        CheckpointError: a teacher is not finished.
    """
    for key in run.teachers:
        if key not in digests:
            raise CheckpointError(
                f"{folder.path}: is there, and its teacher {key} is not finished; put that run back, or move "
                f"{run.key} away, or use another --run-root"
            )
    names = names_of_references(len(run.refs))
    if run.old:
        names = [Role.OLD.value, *names]
    return {name: digests[key] for name, key in zip(names, run.teachers, strict=True)}
