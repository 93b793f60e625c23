"""Results that are kept of a finished run, so that its table can be made again without training."""

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
# Bytes that a repository of results should hold at most of one run.
MOST_BYTES = 150_000
# Lines of single steps, out of one every second: more than a curve can show, at some 60 bytes each once
# packed.
MOST_STEPS = 500
_STEP = b'{"event":"step"'


def keep_results(study: str, run: PlannedRun, folder: Path, results: Path) -> list[str]:
    """Copies the results of a finished run to ``results/STUDY/SEED/RUN``; what is there already stays.
    Of the metrics every epoch is kept, and of a long run's single steps `MOST_STEPS`, evenly spread; of the
    environment all but the command line, and of the answers all but where the pictures lie: these name
    folders of this machine.

    Args:
        study: name of the study.
        run: as planned.
        folder: of the run.
        results: where results are kept.

    Returns:
        A note, where it is more than `MOST_BYTES`.

    Raises:
        UsageError: what is kept there is of another run.
        CheckpointError: it has no answers, or they are damaged.
        StorageError: it cannot be written.
    """
    source, target = RunDir(folder), _place(study, run, results)
    refuse_kept_of_another(study, run, folder, results)
    environment = _environment(source.environment)
    contents = {
        "environment.json": environment.model_dump_json(exclude={"command"}, indent=2).encode(),
        "recipe.yaml": source.recipe.read_bytes(),
        METRICS_NAME: _zipped(thinned(source.metrics.read_bytes())),
        ANSWERS_NAME: answers_bytes(_without_data_root(folder)),
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
    """Refuse a place where a finished run is kept that is not this one.

    Args:
        study: name of the study.
        run: as planned.
        finished: its folder, where it is finished; None where it is still to be trained.
        results: where results are kept.

    Raises:
        UsageError: another run is kept there, by when it was started and on what; or files that are no run's.
    """
    place = _place(study, run, results)
    names = ("environment.json", "recipe.yaml", METRICS_NAME, ANSWERS_NAME)
    if not any(os.path.lexists(place / name) for name in names):
        return
    try:
        kept = _environment(place / "environment.json")
        same = finished is not None and kept == _environment(RunDir(finished).environment)
    except (OSError, ValidationError):
        same = False
    if not same:
        raise UsageError(
            f"--results {results}: {place} keeps another run than that of this run root; name another "
            "folder, or move it away"
        )


def _place(study: str, run: PlannedRun, results: Path) -> Path:
    return results / study / str(run.seed) / run.name


def _environment(path: Path) -> EnvironmentFile:
    """The environment of a run, without its command line, which is not kept."""
    return EnvironmentFile.model_validate_json(path.read_bytes()).model_copy(update={"command": []})


def _without_data_root(folder: Path) -> RunAnswers:
    answers = read_answers(folder)
    if answers is None:
        raise CheckpointError(f"{folder}: holds no {ANSWERS_NAME}; ask the run with mptctl compare")
    request = answers.head.request.model_copy(update={"data_root": None})
    return replace(answers, head=answers.head.model_copy(update={"request": request}))


def thinned(metrics: bytes) -> bytes:
    """The lines of a ``metrics.jsonl`` with at most `MOST_STEPS` of single steps, first and last included."""
    lines = metrics.splitlines(keepends=True)
    steps = [at for at, line in enumerate(lines) if line.startswith(_STEP)]
    if len(steps) <= MOST_STEPS:
        return metrics
    apart = (len(steps) - 1) / (MOST_STEPS - 1)
    left_out = set(steps) - {steps[round(i * apart)] for i in range(MOST_STEPS)}
    return b"".join(line for at, line in enumerate(lines) if at not in left_out)


def writable_results(results: Path) -> None:
    """Make the folder of results, or refuse it before anything is trained.

    Raises:
        StorageError: it cannot be made or written.
    """
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(results, error) from error
    if not os.access(results, os.W_OK | os.X_OK):
        raise StorageError(f"{results}: cannot be written; choose another folder")


def _zipped(content: bytes) -> bytes:
    """The same bytes for the same content, whenever they are made."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
        file.write(content)
    return buffer.getvalue()
