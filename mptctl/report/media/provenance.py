"""Collect the provenance of a page: command, day, versions, and the digests of what was compared."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl import __version__
from mptctl.errors import CheckpointError, MptctlError
from mptctl.evaluation.reading.readers import find_parts

if TYPE_CHECKING:
    from mptctl.inference.named_models import NamedModels

# Packages whose versions can change the numbers.
PACKAGES = ("torch", "numpy", "duckdb")
NOT_READ = "could not be read"


@dataclass(frozen=True)
class Provenance:
    """The origin of a page: command, day, versions and digests.

    Attributes:
        command: quoted for a shell; None where no command made the page.
        day: on which the page was made, ISO 8601.
        versions: of mptctl, Python and packages, by name.
        digests: SHA-256 of files, checkpoints and splits, hexadecimal, by what each is of.
    """

    command: str | None
    day: str
    versions: Mapping[str, str]
    digests: Mapping[str, str]


def provenance(
    argv: Sequence[str] | None, digests: Mapping[str, str], today: date | None = None
) -> Provenance:
    """The provenance of a page, with the versions of this program and of the packages installed here.

    Args:
        argv: of the command, its program first; None where no command made the page.
        digests: as in `Provenance`.
        today: day of the page; None: the current day of this machine.
    """
    versions = {"mptctl": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    command = None if argv is None else shlex.join(["mptctl", *argv[1:]])
    return Provenance(command, (today or date.today()).isoformat(), versions, digests)


def digests_of_models(models: NamedModels) -> dict[str, str]:
    """The digest of each model's checkpoint or predictions file, which is read, by role and name."""
    digests = {}
    for role, model in models.models.items():
        digests[f"{role}: {model.name}"] = models.digests.get(role) or digest_of_files(model.name)
    return digests


def digests_of_runs(folders: Sequence[str]) -> dict[str, str]:
    """The digest of the checkpoint of each run by folder, as the run's stored test predictions say."""
    from mptctl.studies.answers_file import read_answers

    digests = {}
    for folder in folders:
        stored = None
        with suppress(CheckpointError):
            stored = read_answers(Path(folder))
        digests[folder] = NOT_READ if stored is None else stored.head.digest
    return digests


def digest_of_files(name: str) -> str:
    """The SHA-256 of a predictions file, or of its parts one after the other; `NOT_READ` if it cannot be."""
    digest = hashlib.sha256()
    try:
        for part in find_parts(Path(name)):
            with part.open("rb") as stream:
                while block := stream.read(2**20):
                    digest.update(block)
    except (OSError, MptctlError):
        return NOT_READ
    return digest.hexdigest()
