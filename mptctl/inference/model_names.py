"""Names of models, as a person gives them: where they lie, and what is refused before anything is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from mptctl.errors import UsageError
from mptctl.evaluation.reading.readers import SUFFIXES, is_predictions_file, names_files
from mptctl.names import READ_FORMATS

# What a model in a file ends in, but for weights that somebody named otherwise.
MODELS = (".pt", *(f".{form}" for form in READ_FORMATS))


def file_of(name: str, run_root: Path) -> Path:
    """The file of predictions: by their path, or below the run root."""
    path = Path(name).expanduser()
    below = run_root / path
    return below if names_files(below) and not names_files(path) else path


def refuse_foreign(names: Iterable[str], run_root: Path) -> None:
    """Refuse a file that is neither a model nor predictions, before splits and checkpoints are looked at.

    Raises:
        UsageError: names the endings that can be read. CheckpointError: a program of torch.export.
    """
    from mptctl.models.export_meta import refuse_torch_program

    for name in names:
        there = (path for path in (run_root / name, Path(name).expanduser()) if os.path.exists(path))
        path = next(there, None)
        if path is None or not os.path.isfile(path) or path.suffix.lower() in MODELS:
            continue
        refuse_torch_program(path.suffix, str(path))
        try:
            with open(path, "rb") as file:
                begins = file.read(2)
        except OSError:
            continue  # said with its reason when it is read
        # Weights may have any name: they are an archive, or a pickle.
        if begins != b"PK" and begins[:1] != b"\x80":
            raise UsageError(
                f"{path}: is neither a model nor predictions; name a run, a model ({', '.join(MODELS)}), or "
                f"predictions ({SUFFIXES})"
            )


def refuse_without_split(names: Sequence[str], run_root: Path) -> None:
    """Refuse at once, before torch is imported, where there is no split or the only one cannot be read.

    Raises:
        UsageError, DataError: there is none, or it is damaged.
    """
    from mptctl.data.split import load_split
    from mptctl.data.split_file import SPLIT_NAME

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


def refuse_twice(news: Sequence[str], run_root: Path) -> None:
    """Refuse one new model under two names: its row would stand there twice.

    Raises:
        UsageError: it is. CheckpointError: there is no such model.
    """
    from mptctl.models.run_folder import find_checkpoint

    seen: dict[str, str] = {}
    for new in news:
        is_file = is_predictions_file(Path(new).expanduser())
        place = os.path.realpath(file_of(new, run_root) if is_file else find_checkpoint(new, run_root))
        if place in seen:
            other = "" if seen[place] == new else f" (as {seen[place]} before)"
            raise UsageError(f"{new}: is named twice as NEW{other}; name each replacement once")
        seen[place] = new
