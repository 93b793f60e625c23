"""The history of releases: a file with one line of JSON for each comparison, to which commands append."""

from __future__ import annotations

import datetime
import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.limits import Limits, Looks
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.verdict import Gate
from mptctl.files import Model, locked_folder, writing

# Largest history in bytes: room for a hundred thousand releases.
MOST_BYTES = 2**26

Verdict = Literal["passed", "failed", "undecided", "ungated"]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Entry(Model):
    """A line of the history, with the fields that every line has."""

    date: datetime.date = Field(description="day of the entry")
    old: str = Field(description="the model in production")
    new: str = Field(description="its replacement")
    tag: str | None = Field(default=None, description="as --tag gave it, or the git commit")
    verdict: Verdict = Field(description="of the gate; ungated where no limit was set")
    looks: Looks = Field(
        default="once",
        exclude_if=lambda looks: looks == "once",
        description="any: the verdict may be asked again and again; not there: once",
    )
    fingerprint: str = Field(
        pattern="^[0-9a-f]{64}$", description="digest of what makes this entry another one than those before"
    )


class Release(Entry):
    """A line of the history: one comparison, in short."""

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


class Look(Entry):
    """A line of the history: what labels of a draw say, in short."""

    draw: str = Field(
        pattern=r"^draw-[0-9a-f]{16}-\d+-\d+-(none|confidence)$", description="fingerprint of the draw"
    )
    n: int = Field(ge=1, description="samples of the traffic")
    labelled: int = Field(ge=1, description="labels")
    flips: Fraction | None = Field(description="negative flips per sample, an estimate")
    interval: tuple[Fraction, Fraction] = Field(description="of it, for such traffic; it decides")
    confidence: Fraction = Field(description="level of the interval")


# A key of an entry of labels; in a text of JSON its quotes would stand after backslashes.
_OF_LABELS = re.compile(rb'"draw"\s*:')
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
    looks: list[Look] = Field(default_factory=list, description="at labels; those of one draw together")


def verdict_of(gate: Gate) -> Verdict:
    """The verdict of a gate in one word."""
    if not gate.checks:
        return "ungated"
    if gate.passed:
        return "passed"
    return "undecided" if gate.answer == "undecided" else "failed"


def digest(content: str) -> str:
    """The fingerprint of an entry with this content."""
    return hashlib.sha256(content.encode()).hexdigest()


def make_release(report: FlipReport, today: datetime.date, tag: str | None = None) -> Release:
    """Make the line of a history from the report of a comparison.

    Args:
        report: the comparison, with all its flips as `worst_flips`.
        today: the day on which it is added.
        tag: a name of the release, such as its git commit.
    """
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
        verdict=verdict_of(report.gate),
        looks=report.gate.looks,
        fingerprint=digest(content),
    )


def read_history(path: Path) -> History:
    """Read a history; errors as `read_entries`."""
    entries = read_entries(path)
    by_draw: dict[str, list[Look]] = {}
    for entry in entries:
        if isinstance(entry, Look):
            by_draw.setdefault(entry.draw, []).append(entry)
    return History(
        releases=[entry for entry in entries if isinstance(entry, Release)],
        looks=[look for looks in by_draw.values() for look in looks],
    )


def read_entries(path: Path) -> list[Release | Look]:
    """Read the entries of a history, in the order of its lines; blank lines are skipped.

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
    entries: list[Release | Look] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        kind = Look if _OF_LABELS.search(line) else Release
        try:
            entries.append(kind.model_validate_json(line))
        except ValidationError as error:
            problem = error.errors()[0]
            field = ".".join(map(str, problem["loc"]))
            described = f"{field}: {problem['msg']}" if field else problem["msg"]
            raise DataError(
                f"{path}: line {number} is damaged ({described}); correct it, or remove the line"
            ) from error
    return entries


def append_release(path: Path, release: Release | Look, *, named: bool = False) -> int | None:
    """Append an entry to a history, unless it has one with the same fingerprint; make a missing file.

    The folder is locked meanwhile, so other processes that append wait. The file is replaced as a whole, so
    that it never ends in half a line.

    Args:
        path: of the history.
        release: the comparison, or what labels say.
        named: somebody chose the tag, so only an entry with the same tag is the same.

    Returns:
        None where the entry was appended; else the number, from 1, of the same entry.

    Raises:
        DataError: the history is damaged or too large.
        UsageError: the history cannot be read.
        StorageError: the history cannot be written.
    """
    with locked_folder(path.parent):
        earlier = read_entries(path) if path.exists() else []
        for number, other in enumerate(earlier, 1):
            if other.fingerprint == release.fingerprint and (not named or other.tag == release.tag):
                return number
        content = path.read_bytes() if path.exists() else b""
        end = b"" if not content or content.endswith(b"\n") else b"\n"
        with writing(path) as stream:
            stream.write(content + end + release.model_dump_json().encode() + b"\n")
    return None
