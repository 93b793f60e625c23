"""`split.json`: the description of a split, and how it is compared with its manifest."""

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
# The manifest of a split has the beginning of its digest in its name, so that a new one never takes the place
# of the one that split.json still names. Splits made before that have manifest.npz.
FIRST_MANIFEST_NAME = "manifest.npz"
MANIFEST_PATTERN = r"manifest(-[0-9a-f]{16})?\.npz"
REPAIR = "restore it, or run mptctl split again with --overwrite"


# With these bytes every `split.json` begins, also one that is damaged or was edited further down.
BEGINNING = re.compile(rb'\s*\{\s*"schema_version"')


def refuse_foreign_split(path: Path) -> None:
    """Refuse to replace a ``split.json`` that is another program's; an empty one is nobody's work.

    Raises:
        UsageError: it does not begin as ours do, or cannot be read.
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
    """The request that `mptctl split` was given."""

    source: Source = Field(description="where the pictures come from")
    data_root: str | None = Field(description="folder of the data; null for the embedded digits")
    old_fraction: float = Field(description="part of the classes that is old, where they are not named")
    old_names: list[str] | None = Field(description="old classes by name, as --old-classes gave them")
    class_fraction: float = Field(
        1.0, description="part of the classes that is taken, the first ones; below 1 in the chain of a study"
    )
    order: Order = Field(description="order of the classes before they are divided")
    seed: int = Field(description="seed of the random order and of the validation part")
    val_fraction: float = Field(description="part of each class's training pictures that is held out")
    place: str | None = Field(None, description="the table, or the pattern of shards; null for others")
    columns: dict[str, str] = Field(
        {}, description="columns of a table by their roles, as --column named them"
    )
    label_key: str | None = Field(None, description="where a shard's labels are, as --label-key named it")
    test_fraction: float | None = Field(
        None, description="part of each class that is the test part; null where the source has one"
    )
    group: str | None = Field(
        None, description="column whose groups lie in one part each; null without groups"
    )


class SplitFile(Model):
    """`split.json`: everything about a split but the rows of its manifest."""

    schema_version: Literal[1] = Field(1, description="version of this file")
    request: SplitRequest = Field(description="what split was asked for")
    class_names: list[str] = Field(
        description="every class that is taken, old ones first: the order of the logits"
    )
    num_old: int = Field(description="how many of them are old")
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


def parse_split_file(content: bytes, path: Path) -> SplitFile:
    """Read what stands in ``split.json``; DataError where it is none."""
    try:
        return SplitFile.model_validate_json(content)
    except ValidationError as error:
        raise DataError(f"{path}: {explain(error, SplitFile)}; {REPAIR}") from error


def refuse_edited(file: SplitFile, manifest: Manifest, path: Path) -> None:
    """Hold a split against its manifest and its own fingerprint.

    Args:
        file: what stands in ``split.json``.
        manifest: the one that it names.
        path: of ``split.json``, for messages.

    Raises:
        DataError: one of them was edited, or they are of different splits; with what was expected and what
            was found.
    """
    beside = path.with_name(file.manifest)

    def compare(what: str, found: str, expected: str) -> None:
        if found != expected:
            raise DataError(f"{what}: {found[:12]} found, {expected[:12]} expected; {REPAIR}")

    compare(
        f"{beside}: not the manifest of {path}: fingerprint", manifest.fingerprint, file.manifest_fingerprint
    )
    if file.manifest != FIRST_MANIFEST_NAME:
        in_name = file.manifest.removeprefix("manifest-").removesuffix(".npz")
        compare(f"{beside}: was edited: digest", manifest.digest[: len(in_name)], in_name)
    found = fingerprint_of(manifest, file.class_names, file.num_old)
    compare(f"{path}: class_names, num_old or fingerprint was edited: fingerprint", found, file.fingerprint)
    if file.request_digest is not None:
        compare(f"{path}: request was edited: digest", digest_of(file.request), file.request_digest)
    known, taken = set(manifest.class_names), file.class_names
    if not known.issuperset(taken) or (file.request.class_fraction == 1 and len(taken) != len(known)):
        raise DataError(f"{path}: its class_names are not those of {beside}; {REPAIR}")
    counts = counts_of(manifest, taken)
    if file.counts != counts:
        raise DataError(f"{path}: counts was edited: {file.counts} found, {counts} expected; {REPAIR}")
    listed, kept_out = len(file.quarantined), int(np.count_nonzero(manifest.parts == BAD))
    if listed != kept_out:
        raise DataError(f"{path}: quarantined was edited: {listed} found, {kept_out} expected; {REPAIR}")


def digest_of(request: SplitRequest) -> str:
    """Digest of a request, by which an edit is found.

    `data_root` is left out, since data may be moved. Default values are left out, so that new fields do not
    change old digests.
    """
    content = request.model_dump(exclude={"data_root"}, exclude_defaults=True)
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def manifest_name(manifest: Manifest) -> str:
    """Name of a manifest's file."""
    return f"manifest-{manifest.digest[:16]}.npz"


def remove_other_manifests(folder: Path, name: str) -> None:
    """Remove the manifests in a folder but the one of a name."""
    for path in folder.glob("manifest*.npz"):
        if path.name != name and re.fullmatch(MANIFEST_PATTERN, path.name):
            path.unlink(missing_ok=True)


def counts_of(manifest: Manifest, class_names: Sequence[str]) -> dict[Part, int]:
    """Pictures of some classes in each part."""
    parts: tuple[Part, ...] = ("train", "val", "test")
    taken = np.isin(np.array(manifest.class_names), np.array(class_names))[manifest.labels]
    return {part: int(np.count_nonzero(taken & (manifest.parts == PART_CODES[part]))) for part in parts}


def fingerprint_of(manifest: Manifest, class_names: Sequence[str], num_old: int) -> str:
    """Digest of a manifest and the class order, which checkpoints carry."""
    content = json.dumps([manifest.fingerprint, list(class_names), num_old])
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
