"""The record of how a row of a study was tuned: `tuning.json` in the folders of its runs."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from mptctl.errors import CheckpointError, one_line
from mptctl.files import Model, write_atomically
from mptctl.recipe.search import Value

TUNING_NAME = "tuning.json"


class TunedTrial(Model):
    """A trial of a method: its settings, and what its best epoch has on the validation part."""

    settings: dict[str, Value] = Field(description="recipe keys and their values")
    errors: int = Field(description="wrong predictions on validation samples")
    flips: int = Field(description="negative flips on validation samples of old classes")
    within: bool = Field(description="whether its error is within the limit, so that it may be chosen")


class Tuning(Model):
    """The tuning of a method: ``tuning.json`` in the folder of each of its runs."""

    seed: int = Field(description="of the study, whose validation part chose")
    limit: float = Field(
        description="largest validation error of the choice: the reference's and the increase"
    )
    samples: int = Field(description="validation samples")
    trials: list[TunedTrial] = Field(description="all of them")
    chosen: dict[str, Value] = Field(description="settings of the one with the fewest flips within the limit")
    work: float | None = Field(description="floating point operations of all trials; null where not known")


def write_tuning(folder: Path, tuning: Tuning) -> None:
    """Write ``tuning.json`` into the folder of a run.

    Raises:
        StorageError: the folder cannot be written.
    """
    write_atomically(folder / TUNING_NAME, tuning.model_dump_json(indent=2).encode())


def read_tuning(folder: Path) -> Tuning | None:
    """Read what a run's method was tuned by; None where it was not tuned.

    Raises:
        CheckpointError: the file cannot be read.
    """
    path = folder / TUNING_NAME
    try:
        return Tuning.model_validate_json(path.read_bytes()) if path.is_file() else None
    except (OSError, ValidationError) as error:
        raise CheckpointError(f"{path}: cannot be read ({one_line(error)[:80]}); restore it") from error
