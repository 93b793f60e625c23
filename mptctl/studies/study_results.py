"""Copies of the results of finished runs, from which the table of a study can be made again."""

from __future__ import annotations

import gzip
import io
import os
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from mptctl.errors import CheckpointError, StorageError, UsageError
from mptctl.files import storage_error, write_atomically
from mptctl.models.run_folder import EnvironmentFile, RunDir
from mptctl.studies.answers_file import ANSWERS_NAME, RunAnswers, answers_bytes, read_answers
from mptctl.studies.study_plan import PlannedRun

METRICS_NAME = "metrics.jsonl.gz"
# Bytes of one run in a repository of results, above which a note is printed.
MOST_BYTES = 150_000
# Lines of single steps that are copied, some 60 bytes each once packed: more than a curve can show.
MOST_STEPS = 500
_STEP = b'{"event":"step"'


def keep_results(study: str, run: PlannedRun, folder: Path, results: Path) -> list[str]:
    """Copy environment, recipe, metrics and predictions of a finished run to ``results/STUDY/SEED/RUN``.

    Files with the same content are not written again. Of the metrics, every epoch is copied, and at most
    `MOST_STEPS` single steps. The command line and the folder of the pictures are left out, since they name
    folders of this machine.

    Args:
        study: name of the study.
        run: as planned.
        folder: of the run.
        results: the folder of all results.

    Returns:
        A note where the copies have more than `MOST_BYTES`; else none.

    Raises:
        UsageError: the results of another run are there.
        CheckpointError: the run has no predictions, or they are damaged.
        StorageError: a file cannot be written.
    """
    source, target = RunDir(folder), _folder_of_results(study, run, results)
    refuse_kept_of_another(study, run, folder, results)
    environment = _read_environment(source.environment)
    contents = {
        "environment.json": environment.model_dump_json(exclude={"command"}, indent=2).encode(),
        "recipe.yaml": source.recipe.read_bytes(),
        METRICS_NAME: _compress(thin_metrics(source.metrics.read_bytes())),
        ANSWERS_NAME: answers_bytes(_read_without_data_root(folder)),
    }
    for name, content in contents.items():
        path = target / name
        if not (path.is_file() and path.read_bytes() == content):
            write_atomically(path, content)
    size = sum(map(len, contents.values()))
    if size > MOST_BYTES:
        return [f"{target}: {size / 1000:.0f} kB, more than {MOST_BYTES // 1000} kB"]
    return []


def refuse_kept_of_another(study: str, run: PlannedRun, finished: Path | None, results: Path) -> None:
    """Refuse to copy the results of a run where those of another run are.

    Runs are the same if their environments are, in which the time of the start stands.

    Args:
        study: name of the study.
        run: as planned.
        finished: its folder, if it is finished; None if it is still to be trained.
        results: the folder of all results.

    Raises:
        UsageError: the results of another run, or files of no run, are there.
    """
    place = _folder_of_results(study, run, results)
    names = ("environment.json", "recipe.yaml", METRICS_NAME, ANSWERS_NAME)
    if not any(os.path.lexists(place / name) for name in names):
        return
    try:
        kept = _read_environment(place / "environment.json")
        same = finished is not None and kept == _read_environment(RunDir(finished).environment)
    except (OSError, ValidationError):
        same = False
    if not same:
        raise UsageError(
            f"--results {results}: {place} keeps another run than that of this run root; name another "
            "folder, or move it away"
        )


def _folder_of_results(study: str, run: PlannedRun, results: Path) -> Path:
    """The folder of the results of a run."""
    return results / study / str(run.seed) / run.name


def _read_environment(path: Path) -> EnvironmentFile:
    """Read the environment of a run, without its command line, which is not copied."""
    return EnvironmentFile.model_validate_json(path.read_bytes()).model_copy(update={"command": []})


def _read_without_data_root(folder: Path) -> RunAnswers:
    """Read the kept predictions of a run, without the folder of the split's pictures.

    Raises:
        CheckpointError: there are none, or they are damaged.
    """
    answers = read_answers(folder)
    if answers is None:
        raise CheckpointError(f"{folder}: holds no {ANSWERS_NAME}; ask the run with mptctl compare")
    request = answers.head.request.model_copy(update={"data_root": None})
    return replace(answers, head=answers.head.model_copy(update={"request": request}))


def thin_metrics(metrics: bytes) -> bytes:
    """Thin the lines of a ``metrics.jsonl`` out, to at most `MOST_STEPS` lines of single steps.

    These are evenly spread, and contain the first and the last one; all other lines stay.
    """
    lines = metrics.splitlines(keepends=True)
    steps = [number for number, line in enumerate(lines) if line.startswith(_STEP)]
    if len(steps) <= MOST_STEPS:
        return metrics
    distance = (len(steps) - 1) / (MOST_STEPS - 1)
    kept_steps = {steps[round(i * distance)] for i in range(MOST_STEPS)}
    left_out = set(steps) - kept_steps
    return b"".join(line for number, line in enumerate(lines) if number not in left_out)


def make_results_folder(results: Path) -> None:
    """Make the folder of results where it is missing.

    Raises:
        StorageError: the folder cannot be made, or not be written into.
    """
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(results, error) from error
    if not os.access(results, os.W_OK | os.X_OK):
        raise StorageError(f"{results}: cannot be written; choose another folder")


def _compress(content: bytes) -> bytes:
    """Compress by gzip, without the time, so that the same content gives the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
        file.write(content)
    return buffer.getvalue()
