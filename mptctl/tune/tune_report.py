"""The report of a search, for ``trials.json`` and ``--json``, and the kinds of folders of a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import Field

from mptctl.evaluation.bias.choice import Budget
from mptctl.evaluation.rates import Rate
from mptctl.files import Model, write_atomically
from mptctl.files.kept_names import SEARCH_FILES
from mptctl.models.ownership import RUN, FolderKind, is_run
from mptctl.names import Sampler
from mptctl.recipe import Recipe
from mptctl.recipe.search import Axis, Value

Status = Literal["waiting", "running", "done", "stopped", "failed"]
# The file with the report.
TRIALS_NAME = "trials.json"
# The file with the chosen recipe.
BEST_NAME = "best.yaml"
# The file in the folder of a trial with the traceback of an unexpected error.
ERROR_NAME = "error.txt"


class Trial(Model):
    """A trial. Its rates are those of its best checkpoint so far, on the validation part."""

    name: str = Field(description="its settings in short")
    settings: dict[str, Value] = Field(description="its own settings, beside the common recipe")
    status: Status = Field("waiting", description="stopped: given up early, since others were better")
    epoch: int = Field(0, description="finished epochs")
    val_error: Rate | None = Field(None, description="error on all classes; null before the first epoch")
    val_nfr: Rate | None = Field(None, description="negative flip rate on the old classes")
    within_bound: bool | None = Field(
        None, description="whether it keeps to the limit, so that it may be chosen; null: not known yet"
    )
    nfr_at_most: float | None = Field(
        None, description="with max_nfr: upper end of the exact interval of its NFR"
    )
    seconds: float = Field(0.0, description="training time, over all its starts")
    restarts: int = Field(0, description="how often its process died and another one went on")
    error: str | None = Field(None, description="the fault, in one line")
    run: str = Field(description="its run folder")


class Reference(Model):
    """The reference, whose error bounds that of the choice."""

    runs: list[str] = Field(description="its checkpoints; of several, the mean of the logits")
    val_error: Rate = Field(description="error on all classes of the validation part")
    epochs: int | None = Field(
        None, description="that it was trained for, the fewest of several; null if imported"
    )


class TuneReport(Model):
    """A search: its axes and limits, every trial, and the choice."""

    schema_version: Literal[1] = Field(1, description="version of this file")
    sampler: Sampler = Field(description="grid, random or optuna")
    axes: list[Axis] = Field(description="the searched keys and their values")
    asha: bool = Field(description="whether trials were given up early by their NFR")
    epochs: int = Field(description="epochs of a whole trial")
    max_er_increase: float | None = Field(
        description="how much more error than the reference's is allowed, a fraction; null with max_nfr"
    )
    max_nfr: float | None = Field(
        None, description="limit on NFR, a fraction, that the choice was shown to keep"
    )
    confidence: float | None = Field(
        None, description="with max_nfr: how sure that is, over all trials together"
    )
    reference: Reference = Field(description="the reference model")
    samples: int = Field(description="validation samples")
    samples_old: int = Field(description="validation samples of old classes")
    recipe: Recipe = Field(description="the common recipe")
    split_fingerprint: str = Field(description="of the split")
    teachers: dict[str, str] = Field(description="role to digest of the teacher")
    trials: list[Trial] = Field(description="every trial")
    front: list[str] = Field([], description="whole trials that no other one beats in both NFR and error")
    choice: str | None = Field(None, description="the chosen trial; null where none keeps to the limit")
    best_recipe: str | None = Field(None, description="file with the chosen recipe")
    seconds: float = Field(0.0, description="of this search, from its start to its end")

    @property
    def budget(self) -> Budget:
        """The limit that the choice has to keep, with its confidence and the number of epochs."""
        return Budget(
            max_nfr=self.max_nfr,
            max_er_increase=self.max_er_increase,
            confidence=Budget.confidence if self.confidence is None else self.confidence,
            epochs=max(1, self.epochs),  # 0 with optim.epochs=0, which trains nothing
        )

    @property
    def error_bound(self) -> float | None:
        """Largest validation error that the choice may have, a fraction; None with a limit on NFR."""
        if self.max_er_increase is None:
            return None
        return (self.reference.val_error.value or 0.0) + self.max_er_increase

    def trial(self, name: str) -> Trial:
        """The trial of a name."""
        return next(trial for trial in self.trials if trial.name == name)


def is_search(folder: Path) -> bool:
    """Tells whether a folder holds a search, by its ``trials.json``."""
    try:
        content = json.loads((folder / TRIALS_NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and {"sampler", "trials", "split_fingerprint"} <= content.keys()


def is_trial(folder: Path) -> bool:
    """Tells whether a folder holds a trial: a run, nothing, or the error of a trial that did not begin."""
    holds_at_most_an_error = all(item.name == ERROR_NAME for item in RUN.contents(folder))
    return holds_at_most_an_error or is_run(folder)


TRIAL = FolderKind("trial", files=(*RUN.files, ERROR_NAME), folders=RUN.folders, marked=is_trial)
# The folder that Ray writes to; its experiment is called ``search``.
RAY = FolderKind("Ray's folder", folders={"search": FolderKind("experiment", whole=True)})
SEARCH = FolderKind(
    "search",
    files=SEARCH_FILES,
    folders={"trials": FolderKind("trials", folders={"*": TRIAL}), "ray": RAY},
    marked=is_search,
)


def write_report(folder: Path, report: TuneReport) -> None:
    """Write ``trials.json`` into the folder of a search.

    Raises:
        StorageError: the disk is full, or the folder cannot be written into.
    """
    write_atomically(folder / TRIALS_NAME, (report.model_dump_json(indent=2) + "\n").encode())
