"""The history of releases: a file with one line of JSON for each comparison, to which commands append."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.limits import Limits, Looks
from mptctl.evaluation.rates import Counts
from mptctl.files import Model, locked_folder, writing

# Largest history in bytes: room for a hundred thousand releases.
MOST_BYTES = 2**26

Verdict = Literal["passed", "failed", "undecided", "ungated"]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Release(Model):
    """A line of the history: one comparison, in short."""

    date: datetime.date = Field(description="day of the entry")
    old: str = Field(description="the model in production")
    new: str = Field(description="its replacement")
    tag: str | None = Field(default=None, description="as --tag gave it, or the git commit")
    n: int = Field(ge=0, description="test samples")
    n_old: int = Field(ge=1, description="test samples of the old classes")
    counts: Counts = Field(description="the flip table")
    nfr: Fraction = Field(description="negative flip rate")
    nfr_ci95: tuple[Fraction, Fraction] = Field(description="exact 95 % interval of it")
    rel_nfr: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(description="Rel-NFR")
    lost: Fraction | None = Field(description="negative flips / right predictions of the old model")
    er_old: Fraction = Field(description="error of the old model on the old classes")
    er_new: Fraction = Field(description="error of the new model on the old classes")
    er_all: Fraction = Field(description="error of the new model on all samples")
    verdict: Verdict = Field(description="of the gate; ungated where no limit was set")
    looks: Looks = Field(
        default="once",
        exclude_if=lambda looks: looks == "once",
        description="any: the verdict may be asked again and again; not there: once",
    )
    fingerprint: str = Field(
        pattern="^[0-9a-f]{64}$",
        description="digest of names, counts by class and prediction, errors, flipped samples, and limits",
    )


# Fields that a report and a release have in common.
_SAME = {"n", "n_old", "counts", "nfr", "nfr_ci95", "rel_nfr", "lost"}
# Fields of a report that make a release what it is. Of the gate these are what was agreed to, and not the
# verdict: a waiver that expires makes no other release.
_IDENTIFYING: Any = dict.fromkeys(("n", "counts", "per_class", "pairs"), True) | {
    "old": {"errors"},
    "new": {"errors"},
    "gate": dict.fromkeys(Limits.model_fields, True)
    | {
        "limits": {"__all__": {"name", "limit"}},
        "waivers": {"__all__": {"name", "owner", "reason", "expires", "max_flips"}},
    },
}


class History(Model):
    """The releases of a history, as `mptctl history --json` prints them."""

    releases: list[Release] = Field(description="oldest entry first")


def make_release(report: FlipReport, today: datetime.date, tag: str | None = None) -> Release:
    """Make the line of a history from the report of a comparison.

    Args:
        report: the comparison, with all its flips as `worst_flips`.
        today: the day on which it is added.
        tag: a name of the release, such as its git commit.
    """
    gate = report.gate
    verdict: Verdict = "passed" if gate.passed else "undecided" if gate.answer == "undecided" else "failed"
    flips = sorted((flip.id, flip.answer) for flip in report.worst_flips)
    content = report.model_dump_json(include=_IDENTIFYING) + repr((report.old.name, report.new.name, flips))
    return Release(
        **report.model_dump(include=_SAME),
        date=today,
        old=report.old.name,
        new=report.new.name,
        tag=tag,
        er_old=report.old.er_old_classes,
        er_new=report.new.er_old_classes,
        er_all=report.new.er_all,
        verdict=verdict if gate.checks else "ungated",
        looks=gate.looks,
        fingerprint=hashlib.sha256(content.encode()).hexdigest(),
    )


def read_history(path: Path) -> list[Release]:
    """Read the releases of a history, in the order of its lines; blank lines are skipped.

    Raises:
        DataError: there is no such file, it is larger than `MOST_BYTES`, or a line is damaged; the message
            has its number.
        UsageError: the file cannot be read.
    """
    try:
        if not path.is_file():
            if path.exists():
                raise DataError(f"{path}: is neither a file nor a link to one; name a file")
            raise DataError(f"{path}: no such file; evaluate --append-history writes one")
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path}: larger than {MOST_BYTES >> 20} MB; this is no history of releases")
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); name another file") from error
    releases = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            releases.append(Release.model_validate_json(line))
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            raise DataError(
                f"{path}: line {number} is damaged ({f'{where}: ' if where else ''}{problem['msg']}); "
                "correct it, or remove the line"
            ) from error
    return releases


def append_release(path: Path, release: Release, *, named: bool = False) -> int | None:
    """Append a release to a history, unless it has a release with the same fingerprint; make a missing file.

    The folder is locked meanwhile, so other processes that append wait. The file is replaced as a whole, so
    that it never ends in half a line.

    Args:
        path: of the history.
        release: the comparison.
        named: somebody chose the tag, so only a release with the same tag is the same.

    Returns:
        None where the release was appended; else the place, from 1, of the same release.

    Raises:
        DataError: the history is damaged or too large.
        UsageError: the history cannot be read.
        StorageError: the history cannot be written.
    """
    with locked_folder(path.parent):
        earlier = read_history(path) if path.exists() else []
        for place, other in enumerate(earlier, 1):
            if other.fingerprint == release.fingerprint and (not named or other.tag == release.tag):
                return place
        content = path.read_bytes() if path.exists() else b""
        end = b"" if not content or content.endswith(b"\n") else b"\n"
        with writing(path) as stream:
            stream.write(content + end + release.model_dump_json().encode() + b"\n")
    return None
