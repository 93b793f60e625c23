"""Keep what a study's tables are made from, without weights: ``python -m tools.keep_results runs/X results/X``."""

from __future__ import annotations

import gzip
import io
import sys
from dataclasses import replace
from pathlib import Path

from mptctl.files import write_atomically
from mptctl.models.run_folder import EnvironmentFile, RunDir
from mptctl.studies.answers_file import ANSWERS_NAME, answers_bytes, read_answers
from mptctl.studies.study_file import TRIALS
from mptctl.studies.tuning.record import TUNING_NAME

METRICS_NAME = "metrics.jsonl.gz"
# Lines of single steps that are kept, some 60 bytes each once packed: more than a curve can show.
MOST_STEPS = 500
_STEP = b'{"event":"step"'


def keep_run(folder: Path, target: Path) -> None:
    """Write environment, recipe, metrics, predictions and tuning of a finished run to another folder.

    Left out are what names folders of this machine: the command line, and the folder of the pictures.

    Raises:
        SystemExit: the run has no predictions, or the folder keeps another run (one that began at another time).
    """
    run, answers = RunDir(folder), read_answers(folder)
    if answers is None:
        raise SystemExit(f"{folder}: holds no {ANSWERS_NAME}; make it with mptctl compare")
    environment = EnvironmentFile.model_validate_json(run.environment.read_bytes())
    request = answers.head.request.model_copy(update={"data_root": None})
    head = answers.head.model_copy(update={"request": request})
    contents = {
        "environment.json": environment.model_dump_json(exclude={"command"}, indent=2).encode(),
        "recipe.yaml": run.recipe.read_bytes(),
        METRICS_NAME: _packed(thin_metrics(run.metrics.read_bytes())),
        ANSWERS_NAME: answers_bytes(replace(answers, head=head)),
    }
    tuning = folder / TUNING_NAME
    if tuning.is_file():
        contents[TUNING_NAME] = tuning.read_bytes()
    kept = target / "environment.json"
    if target.exists() and not (kept.is_file() and kept.read_bytes() == contents["environment.json"]):
        raise SystemExit(f"{target}: keeps another run than {folder}; move it away")
    for name, content in contents.items():
        write_atomically(target / name, content)


def thin_metrics(metrics: bytes) -> bytes:
    """Thin the lines of a ``metrics.jsonl`` out, to at most `MOST_STEPS` lines of single steps.

    These are evenly spread, and contain the first and the last one; all other lines stay.
    """
    lines = metrics.splitlines(keepends=True)
    steps = [number for number, line in enumerate(lines) if line.startswith(_STEP)]
    if len(steps) <= MOST_STEPS:
        return metrics
    distance = (len(steps) - 1) / (MOST_STEPS - 1)
    left_out = set(steps) - {steps[round(i * distance)] for i in range(MOST_STEPS)}
    return b"".join(line for number, line in enumerate(lines) if number not in left_out)


def _packed(content: bytes) -> bytes:
    """Compress by gzip, without the time, so that the same content gives the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
        file.write(content)
    return buffer.getvalue()


def keep_study(root: Path, results: Path) -> None:
    """Keep the finished runs of a study's run root, trials aside, in a folder of the same structure."""
    for best in sorted(root.rglob("best.pt")):
        if not best.parent.parent.name.startswith(TRIALS) and RunDir(best.parent).is_finished():
            keep_run(best.parent, results / best.parent.relative_to(root))


if __name__ == "__main__":
    keep_study(*map(Path, sys.argv[1:]))
