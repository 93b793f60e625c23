"""Provenance of a page: command, versions, split, and the digest and recipe of each model."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from mptctl import __version__
from mptctl.errors import CheckpointError, MptctlError
from mptctl.evaluation.reading.readers import find_parts

if TYPE_CHECKING:
    from mptctl.inference.named_models import NamedModels
    from mptctl.models.checkpoint import CheckpointMeta
    from mptctl.models.records import Adjustment, BiasPath
    from mptctl.recipe import Recipe
    from mptctl.tune.tune_report import TuneReport

# Packages that decide what the numbers are.
PACKAGES = ("torch", "numpy", "duckdb")
ROLES = {
    "old": "old model",
    "new": "new model",
    "noise_floor": "noise floor",
    "baseline": "baseline",
    "model": "model",
}
NOT_READ = "could not be read"


@dataclass(frozen=True)
class Change:
    """One key in which a recipe differs from its preset; all as text."""

    key: str
    value: str
    usual: str


@dataclass(frozen=True)
class Origin:
    """The origin of one model.

    Attributes:
        role: what it is here, such as `old model`.
        name: the file, or the run folder.
        facts: names and values, in the order in which they are shown.
        preset: the preset that its recipe is most like; None where it has no recipe.
        changes: what the recipe changes of it.
    """

    role: str
    name: str
    facts: tuple[tuple[str, str], ...] = ()
    preset: str | None = None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Provenance:
    """Command, versions and models that a page was made from.

    Attributes:
        command: as a shell takes it; None where no command made the page.
        day: on which it was made, ISO 8601.
        versions: by name.
        origins: the models, in the order in which they are shown.
    """

    command: str | None
    day: str
    versions: Mapping[str, str]
    origins: tuple[Origin, ...]


class Gathering:
    """Origins of the models of a comparison; threads make digests of files while it is computed."""

    def __init__(self, found: NamedModels, argv: Sequence[str], today: date | None = None) -> None:
        """Args:
        found: the models.
        argv: of the command, its program first.
        today: the day; default: the day that it is here.
        """
        self._found, self._argv, self._today = found, argv, today
        self._digests: dict[str, str] = {}
        files = {role: model.name for role, model in found.models.items() if model.origin == "file"}
        # They end with the program: whoever stops it waits for no digest.
        self._threads = [Thread(target=self._keep_digest, args=file, daemon=True) for file in files.items()]
        for thread in self._threads:
            thread.start()

    def _keep_digest(self, role: str, name: str) -> None:
        self._digests[role] = digest_of_files(name)

    def finish(self) -> Provenance:
        """Wait for the digests."""
        for thread in self._threads:
            thread.join()
        return provenance(self._argv, [self._origin(role) for role in self._found.models], self._today)

    def _origin(self, role: str) -> Origin:
        model, title = self._found.models[role], ROLES.get(role, role)
        if role not in self._found.records:
            return Origin(title, model.name, (("digest", self._digests.get(role, NOT_READ)),))
        return origin_of_checkpoint(title, model.name, *self._found.records[role])


def provenance(
    argv: Sequence[str] | None, origins: Sequence[Origin], today: date | None = None
) -> Provenance:
    """Collects command, versions and models that a page was made from.

    Args:
        argv: of the command, its program first; None where no command made the page.
        origins: the models.
        today: the day; default: the day that it is here.
    """
    versions = {"mptctl": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    command = None if argv is None else shlex.join(["mptctl", *argv[1:]])
    return Provenance(command, (today or date.today()).isoformat(), versions, tuple(origins))


def digest_of_files(name: str) -> str:
    """SHA-256 of a predictions file, or of its parts one after the other."""
    digest = hashlib.sha256()
    try:
        parts = find_parts(Path(name))
        for part in parts:
            with part.open("rb") as stream:
                while block := stream.read(2**20):
                    digest.update(block)
    except (OSError, MptctlError):
        return NOT_READ
    of = "" if len(parts) == 1 else f" (of {len(parts):,} parts, one after the other)"
    return f"SHA-256 {digest.hexdigest()}{of}"


def origin_of_checkpoint(role: str, name: str, digest: str, meta: CheckpointMeta) -> Origin:
    """The origin of a model of ours, as its checkpoint says."""
    facts = [
        ("digest", f"SHA-256 {digest}"),
        ("split fingerprint", meta.split_fingerprint or "not known"),
        ("origin", f"{meta.origin}, {meta.epoch:,} epochs" if meta.origin == "trained" else meta.origin),
        *((f"teacher: {teacher}", f"SHA-256 {of}") for teacher, of in meta.teachers.items()),
        ("k by epoch", _path_of_k(meta.bias_path)),
        ("adjusted", _adjusted(meta.adjustment)),
        ("trained with", ", ".join(f"{name} {of}" for name, of in meta.versions.items())),
        ("commit", meta.git_commit or ""),
    ]
    recipe = meta.recipe if meta.origin == "trained" else None
    return _origin(role, name, facts, recipe)


def origins_of_runs(folders: Sequence[str]) -> list[Origin]:
    """The origins of runs, as their kept answers say; a run without them has its folder alone."""
    from mptctl.studies.answers_file import read_answers

    origins = []
    for folder in dict.fromkeys(folders):
        try:
            kept = read_answers(Path(folder))
        except CheckpointError:
            kept = None
        if kept is None:
            origins.append(Origin("run", folder))
            continue
        facts = [
            ("digest", f"SHA-256 {kept.head.digest}"),
            ("split fingerprint", kept.head.split_fingerprint),
            *((f"teacher: {teacher}", f"SHA-256 {of}") for teacher, of in kept.head.teachers.items()),
        ]
        origins.append(_origin(kept.recipe.method.name, folder, facts, kept.recipe))
    return origins


def origin_of_search(report: TuneReport) -> Origin:
    """The origin that all trials of a search share."""
    facts = [
        ("split fingerprint", report.split_fingerprint),
        *((f"teacher: {teacher}", f"SHA-256 {of}") for teacher, of in report.teachers.items()),
        ("reference", ", ".join(report.reference.runs)),
    ]
    return _origin("recipe of all trials", report.recipe.method.name, facts, report.recipe)


def _origin(role: str, name: str, facts: Sequence[tuple[str, str]], recipe: Recipe | None) -> Origin:
    there = tuple((title, value) for title, value in facts if value)
    if recipe is None:
        return Origin(role, name, there)
    from mptctl.recipe import nearest_preset

    preset, changes = nearest_preset(recipe)
    shown = tuple(Change(key, _text(value), _text(usual)) for key, value, usual in changes)
    return Origin(role, name, there, preset, shown)


def _path_of_k(path: BiasPath | None) -> str:
    """Every k that a budget of flips has led to, with the epochs that had it; empty where k was not moved."""
    parts, first = [], 1
    for k, epochs in groupby(path.epochs if path is not None else (), lambda epoch: epoch.k):
        last = first + len(list(epochs)) - 1
        parts.append(f"{k:.2f} in epoch {first}" if first == last else f"{k:.2f} in epochs {first} to {last}")
        first = last + 1
    return ", ".join(parts)


def _adjusted(change: Adjustment | None) -> str:
    """The shift folded into the classifier after training; empty where there is none."""
    if change is None:
        return ""
    low, high = min(change.biases.values(), default=0.0), max(change.biases.values(), default=0.0)
    taken = {
        "none": "no shift",
        "bias": f"{high:.3f} subtracted from every new class's logit",
        "per-class": f"{low:.3f} to {high:.3f} subtracted from the new classes' logits",
    }[change.kind]
    words = [f"from {change.adjusted}", taken]
    if change.max_nfr is not None:
        words.append(f"for an NFR of at most {100 * change.max_nfr:g} %")
    if change.max_er_increase is not None:
        words.append(f"for at most {100 * change.max_er_increase:g} points of error more")
    return ", ".join([*words, f"temperature {change.temperature:g}"])


def _text(value: Any) -> str:
    return "none" if value is None else str(value)
