"""Collect the provenance of a page: command, versions, split, and the digest and recipe of each model."""

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

# Packages whose versions can change the numbers.
PACKAGES = ("torch", "numpy", "duckdb")
# Titles of the roles of models; any other role is its own title.
ROLES = {
    "old": "old model",
    "new": "new model",
    "baseline": "baseline",
    "model": "model",
}
NOT_READ = "could not be read"


@dataclass(frozen=True)
class Change:
    """A recipe key with a value other than the preset's; `usual` is the preset's value. All are text."""

    key: str
    value: str
    usual: str


@dataclass(frozen=True)
class Origin:
    """The origin of one model.

    Attributes:
        role: the model's part in the comparison, such as ``old model``.
        name: the file, or the run folder.
        facts: names and values, in the order of display.
        preset: the preset that differs least from the recipe; None where the model has no recipe.
        changes: the recipe's differences from that preset.
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
        command: quoted for a shell; None where no command made the page.
        day: on which the page was made, ISO 8601.
        versions: of mptctl, Python and packages, by name.
        origins: of the models, in the order of display.
    """

    command: str | None
    day: str
    versions: Mapping[str, str]
    origins: tuple[Origin, ...]


class ProvenanceCollector:
    """Collects the provenance of a comparison; threads compute digests of files while it is evaluated.

    Args:
        models: of the comparison; the threads start at once.
        argv: of the command, its program first.
        today: day of the page; None: the current day of this machine.
    """

    def __init__(self, models: NamedModels, argv: Sequence[str], today: date | None = None) -> None:
        self._models, self._argv, self._today = models, argv, today
        self._digests: dict[str, str] = {}
        files = {role: model.name for role, model in models.models.items() if model.origin == "file"}
        # Daemons: the program can be stopped without waiting for a digest.
        self._threads = [Thread(target=self._keep_digest, args=file, daemon=True) for file in files.items()]
        for thread in self._threads:
            thread.start()

    def _keep_digest(self, role: str, name: str) -> None:
        self._digests[role] = digest_of_files(name)

    def finish(self) -> Provenance:
        """Wait for the digests and return the provenance."""
        for thread in self._threads:
            thread.join()
        return provenance(self._argv, [self._origin(role) for role in self._models.models], self._today)

    def _origin(self, role: str) -> Origin:
        """The origin of the model of a role: its file's digest, or what its checkpoint says."""
        model, title = self._models.models[role], ROLES.get(role, role)
        if role not in self._models.records:
            return Origin(title, model.name, (("digest", self._digests.get(role, NOT_READ)),))
        return origin_of_checkpoint(title, model.name, *self._models.records[role])


def provenance(
    argv: Sequence[str] | None, origins: Sequence[Origin], today: date | None = None
) -> Provenance:
    """The provenance of a page, with the versions of this program and of the packages installed here.

    Args:
        argv: of the command, its program first; None where no command made the page.
        origins: of the models.
        today: day of the page; None: the current day of this machine.
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
    """Text of the SHA-256 of a predictions file, or of its parts one after the other.

    A file that cannot be read gives `NOT_READ`.
    """
    digest = hashlib.sha256()
    try:
        parts = find_parts(Path(name))
        for part in parts:
            with part.open("rb") as stream:
                while block := stream.read(2**20):
                    digest.update(block)
    except (OSError, MptctlError):
        return NOT_READ
    of_parts = "" if len(parts) == 1 else f" (of {len(parts):,} parts, one after the other)"
    return f"SHA-256 {digest.hexdigest()}{of_parts}"


def origin_of_checkpoint(role: str, name: str, digest: str, meta: CheckpointMeta) -> Origin:
    """The origin of a model with a checkpoint; its recipe counts only if it was trained by that recipe.

    Args:
        role: title of the model's part in the comparison.
        name: of the model.
        digest: SHA-256 of the checkpoint's file, hexadecimal.
        meta: of the checkpoint.
    """
    facts = [
        ("digest", f"SHA-256 {digest}"),
        ("split fingerprint", meta.split_fingerprint or "not known"),
        ("origin", f"{meta.origin}, {meta.epoch:,} epochs" if meta.origin == "trained" else meta.origin),
        *_teacher_facts(meta.teachers),
        ("k by epoch", _k_by_epoch(meta.bias_path)),
        ("adjusted", _adjustment_text(meta.adjustment)),
        ("trained with", ", ".join(f"{package} {number}" for package, number in meta.versions.items())),
        ("commit", meta.git_commit or ""),
    ]
    recipe = meta.recipe if meta.origin == "trained" else None
    return _origin(role, name, facts, recipe)


def origins_of_runs(folders: Sequence[str]) -> list[Origin]:
    """The origins of runs, each once, as their stored test predictions say.

    A run whose predictions are missing or cannot be read has its folder alone.
    """
    from mptctl.studies.answers_file import read_answers

    origins = []
    for folder in dict.fromkeys(folders):
        try:
            stored = read_answers(Path(folder))
        except CheckpointError:
            stored = None
        if stored is None:
            origins.append(Origin("run", folder))
            continue
        facts = [
            ("digest", f"SHA-256 {stored.head.digest}"),
            ("split fingerprint", stored.head.split_fingerprint),
            *_teacher_facts(stored.head.teachers),
        ]
        origins.append(_origin(stored.recipe.method.name, folder, facts, stored.recipe))
    return origins


def origin_of_search(report: TuneReport) -> Origin:
    """The origin that all trials of a search for k share: split, teachers, reference and recipe."""
    facts = [
        ("split fingerprint", report.split_fingerprint),
        *_teacher_facts(report.teachers),
        ("reference", ", ".join(report.reference.runs)),
    ]
    return _origin("recipe of all trials", report.recipe.method.name, facts, report.recipe)


def _teacher_facts(digests: Mapping[str, str]) -> list[tuple[str, str]]:
    """A fact for each teacher, with the SHA-256 of its checkpoint.

    Args:
        digests: hexadecimal, by the teacher's role.
    """
    return [(f"teacher: {role}", f"SHA-256 {digest}") for role, digest in digests.items()]


def _origin(role: str, name: str, facts: Sequence[tuple[str, str]], recipe: Recipe | None) -> Origin:
    """An origin without the facts that are empty, and with the recipe's differences from a preset."""
    known_facts = tuple((title, value) for title, value in facts if value)
    if recipe is None:
        return Origin(role, name, known_facts)
    from mptctl.recipe import find_nearest_preset

    preset, differences = find_nearest_preset(recipe)
    changes = tuple(Change(key, _text(value), _text(usual)) for key, value, usual in differences)
    return Origin(role, name, known_facts, preset, changes)


def _k_by_epoch(path: BiasPath | None) -> str:
    """Each k in its order with its epochs, such as ``1.00 in epochs 1 to 3``; empty where k was fixed."""
    parts, first = [], 1
    for k, epochs in groupby(path.epochs if path is not None else (), lambda epoch: epoch.k):
        last = first + len(list(epochs)) - 1
        parts.append(f"{k:.2f} in epoch {first}" if first == last else f"{k:.2f} in epochs {first} to {last}")
        first = last + 1
    return ", ".join(parts)


def _adjustment_text(change: Adjustment | None) -> str:
    """How `adjust` shifted the model after training, with its limits and temperature; empty for None."""
    if change is None:
        return ""
    high = max(change.biases.values(), default=0.0)
    shift = {
        "none": "no shift",
        "bias": f"{high:.3f} subtracted from every new class's logit",
    }[change.kind]
    phrases = [f"from {change.adjusted}", shift]
    if change.max_nfr is not None:
        phrases.append(f"for an NFR of at most {100 * change.max_nfr:g} %")
    if change.max_er_increase is not None:
        phrases.append(f"for at most {100 * change.max_er_increase:g} points of error more")
    return ", ".join([*phrases, f"temperature {change.temperature:g}"])


def _text(value: Any) -> str:
    return "none" if value is None else str(value)
