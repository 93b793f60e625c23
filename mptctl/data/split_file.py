"""`split.json`: its contents, its digests, and its comparison with the manifest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field, ValidationError

from mptctl.data.duplicates import Duplicates
from mptctl.data.manifest import BAD, PART_CODES, Manifest
from mptctl.errors import DataError, UsageError
from mptctl.files import Model
from mptctl.files.explained import explain
from mptctl.names import Order, Part, Source, Verify

SPLIT_NAME = "split.json"
# The name of a manifest has the beginning of its digest, so that a new manifest never overwrites the one that
# split.json still names. The manifest of a split of the first version is manifest.npz.
FIRST_MANIFEST_NAME = "manifest.npz"
MANIFEST_PATTERN = r"manifest(-[0-9a-f]{16})?\.npz"
REPAIR = "restore it, or run mptctl split again with --overwrite"
# The first bytes of every `split.json`, also of one that is damaged or was edited further down.
BEGINNING = re.compile(rb'\s*\{\s*"schema_version"')


def refuse_foreign_split(path: Path) -> None:
    """Refuse to replace a ``split.json`` of another program; an empty one may be replaced.

    Raises:
        UsageError: the file is of another program, or cannot be read.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(100)
    except (FileNotFoundError, NotADirectoryError):
        return  # no file to protect; an unusable folder is reported later, when the split is written
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); use another --run-root") from error
    if start and not BEGINNING.match(start):
        raise UsageError(f"{path}: was not written by mptctl; delete or rename it, or use another --run-root")


class SplitRequest(Model):
    """The arguments of `mptctl split` that decide the split."""

    source: Source = Field(description="where the pictures come from")
    data_root: str | None = Field(description="folder of the data; null for the embedded digits")
    old_fraction: float = Field(description="share of the classes that is old, where old_names is null")
    old_names: list[str] | None = Field(description="old classes by name, as --old-classes gave them")
    class_fraction: float = Field(
        1.0, description="share of the classes that is kept: the first ones; below 1 in the chain of a study"
    )
    order: Order = Field(description="order of the classes before they are divided into old and new")
    seed: int = Field(description="seed of the random order and of the validation part")
    val_fraction: float = Field(
        description="share of each class's training pictures that is held out for validation"
    )
    place: str | None = Field(None, description="the table, or the pattern of shards; null for other sources")
    columns: dict[str, str] = Field(
        {}, description="names of columns of a table by role, as --column gave them"
    )
    label_key: str | None = Field(None, description="key of the labels in shards, as --label-key gave it")
    test_fraction: float | None = Field(
        None, description="share of each class held out for the test; null where the source has a test part"
    )
    group: str | None = Field(
        None, description="column of groups, each of which lies in one part; null without groups"
    )


class SplitFile(Model):
    """The contents of `split.json`: everything about a split but the rows of its manifest."""

    schema_version: Literal[1] = Field(1, description="version of this file")
    request: SplitRequest = Field(description="the arguments of split")
    class_names: list[str] = Field(
        description="names of all classes, old ones first: the order of the logits"
    )
    num_old: int = Field(description="number of old classes")
    counts: dict[Part, int] = Field(description="pictures in each part")
    quarantined: list[str] = Field(description="pictures that are kept out, each with what is wrong with it")
    duplicates: Duplicates | None = Field(
        None, description="identical pictures; null where there are none, and in splits of earlier versions"
    )
    verify: Verify = Field(description="how the files were checked: header, or decode")
    manifest: str = Field(
        FIRST_MANIFEST_NAME,
        pattern=f"^{MANIFEST_PATTERN}$",
        description="file with one row a picture, beside this one",
    )
    manifest_fingerprint: str = Field(description="digest of the manifest")
    fingerprint: str = Field(description="digest of the manifest and the class order")
    request_digest: str | None = Field(
        None, description="digest of the request without its data_root; null in splits of earlier versions"
    )
    class_labels: dict[str, str] | None = Field(
        None, description="names for people by class id, as --class-labels gave them; shown, and nothing else"
    )
    extends: str | None = Field(
        None, description="fingerprint of the split of the same pictures to which it adds class names"
    )

    @property
    def source(self) -> Source:
        """The source that the pictures come from."""
        return self.request.source


def read_split_file(run_root: Path) -> bytes:
    """Read the bytes of ``split.json``; UsageError if there is none, DataError if it cannot be read."""
    path = run_root / SPLIT_NAME
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no {SPLIT_NAME} in {run_root}; run mptctl split SOURCE first") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error


def parse_split_file(content: bytes, path: Path) -> SplitFile:
    """Parse the content of ``split.json``; DataError if it is not valid, with ``path`` for the message."""
    try:
        return SplitFile.model_validate_json(content)
    except ValidationError as error:
        raise DataError(f"{path}: {explain(error, SplitFile)}; {REPAIR}") from error


def refuse_edited(file: SplitFile, manifest: Manifest, path: Path) -> None:
    """Compare ``split.json`` with its manifest, and both with the digests in ``split.json``.

    Args:
        file: content of ``split.json``.
        manifest: the manifest that ``split.json`` names.
        path: path of ``split.json``, for messages.

    Raises:
        DataError: one of the two files was edited, or they are of different splits.
    """
    manifest_path = path.with_name(file.manifest)

    def compare(what: str, actual: str, expected: str) -> None:
        if actual != expected:
            raise DataError(f"{what}: {actual[:12]} found, {expected[:12]} expected; {REPAIR}")

    compare(
        f"{manifest_path}: not the manifest of {path}: fingerprint",
        manifest.fingerprint,
        file.manifest_fingerprint,
    )
    if file.manifest != FIRST_MANIFEST_NAME:
        in_name = file.manifest.removeprefix("manifest-").removesuffix(".npz")
        compare(f"{manifest_path}: was edited: digest", manifest.digest[: len(in_name)], in_name)
    fingerprint = compute_fingerprint(manifest, file.class_names, file.num_old)
    compare(
        f"{path}: class_names, num_old or fingerprint was edited: fingerprint", fingerprint, file.fingerprint
    )
    if file.request_digest is not None:
        compare(f"{path}: request was edited: digest", digest_request(file.request), file.request_digest)
    known, names = set(manifest.class_names), file.class_names
    lacks_classes = file.request.class_fraction == 1 and len(names) != len(known)
    if lacks_classes or not known.issuperset(names):
        raise DataError(f"{path}: its class_names are not those of {manifest_path}; {REPAIR}")
    counts = count_parts(manifest, names)
    if file.counts != counts:
        raise DataError(f"{path}: counts was edited: {file.counts} found, {counts} expected; {REPAIR}")
    listed, kept_out = len(file.quarantined), int(np.count_nonzero(manifest.parts == BAD))
    if listed != kept_out:
        raise DataError(f"{path}: quarantined was edited: {listed} found, {kept_out} expected; {REPAIR}")


def digest_request(request: SplitRequest) -> str:
    """Compute the digest of a request, by which an edit is found.

    `data_root` does not count, since data may be moved. Default values do not count, so that new fields leave
    the digests of earlier splits as they are.
    """
    content = request.model_dump(exclude={"data_root"}, exclude_defaults=True)
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def manifest_name(manifest: Manifest) -> str:
    """Return the name of a manifest's file, which has the beginning of its digest."""
    return f"manifest-{manifest.digest[:16]}.npz"


def remove_other_manifests(folder: Path, name: str) -> None:
    """Remove all manifests in a folder but the one called ``name``."""
    for path in folder.glob("manifest*.npz"):
        if path.name != name and re.fullmatch(MANIFEST_PATTERN, path.name):
            path.unlink(missing_ok=True)


def count_parts(manifest: Manifest, class_names: Sequence[str]) -> dict[Part, int]:
    """Count the pictures of some classes in each part."""
    parts: tuple[Part, ...] = ("train", "val", "test")
    is_wanted = np.isin(np.array(manifest.class_names), np.array(class_names))[manifest.labels]
    return {part: int(np.count_nonzero(is_wanted & (manifest.parts == PART_CODES[part]))) for part in parts}


def compute_fingerprint(manifest: Manifest, class_names: Sequence[str], num_old: int) -> str:
    """Compute the digest of a manifest and the class order, which checkpoints carry."""
    content = json.dumps([manifest.fingerprint, list(class_names), num_old])
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
