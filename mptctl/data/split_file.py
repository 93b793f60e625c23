"""`split.json`: its contents, its digests, and its comparison with the table that it names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from mptctl.data.duplicates import Duplicates
from mptctl.data.manifest import PART_CODES, Manifest, parse_manifest
from mptctl.errors import DataError, UsageError, one_line
from mptctl.files import Model
from mptctl.files.explained import explain
from mptctl.names import OnBad, OnDuplicates, Order, Part, Source, Verify

SPLIT_NAME = "split.json"
# The name of a table has the beginning of its digest, so that a new table never overwrites the one that
# split.json still names.
TABLE_FILES, TABLE_PATTERN = "split-*.arrow", r"split-[0-9a-f]{16}\.arrow"
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
    old_fraction: float = Field(0.5, description="share of the classes that is old, where old_names is null")
    old_names: list[str] | None = Field(None, description="old classes by name, as --old-classes gave them")
    class_fraction: float = Field(
        1.0, description="share of the classes that was kept; below 1 in results of chains alone"
    )
    order: Order = Field("given", description="order of the classes before they are divided into old and new")
    seed: int = Field(0, description="seed of the random order and of the validation part")
    val_fraction: float = Field(
        0.0, description="share of each class's training pictures that is held out for validation"
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
        None, description="column of groups; a group lies in one part; null without groups"
    )
    on_bad: OnBad = Field("fail", description="treatment of pictures that cannot be used")
    on_duplicates: OnDuplicates = Field("keep", description="treatment of identical pictures")


class SplitFile(Model):
    """The contents of `split.json`: everything about a split but the rows of its table."""

    schema_version: Literal[2] = Field(2, description="version of this file")
    request: SplitRequest = Field(description="the arguments of split")
    class_names: list[str] = Field(
        description="names of all classes, old ones first: the order of the logits"
    )
    num_old: int = Field(description="number of old classes")
    counts: dict[Part, int] = Field({}, description="pictures in each part")
    quarantined: list[str] = Field(description="pictures that are kept out, each with its fault")
    duplicates: Duplicates | None = Field(None, description="identical pictures; null without any")
    verify: Verify = Field(description="how the files were checked: header, or decode")
    table: str = Field(
        "", pattern=f"^{TABLE_PATTERN}$", description="file with one row a picture, beside this one"
    )
    manifest_digest: str = Field(
        "", description="digest of all columns of this file, times of change included"
    )
    manifest_fingerprint: str = Field("", description="digest of the pictures, their labels and parts")
    fingerprint: str = Field("", description="digest of these and of the class order")
    class_labels: dict[str, str] | None = Field(
        None, description="names for people by class id, as --class-labels gave them; shown, and nothing else"
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


def about_table(file: SplitFile) -> dict[str, Any]:
    """Return what the table of a split repeats of ``split.json``, by which an edit of either is found.

    Without the name of the table, the readable names of classes, and ``data_root``, since data may be moved.
    """
    return file.model_dump(
        mode="json", exclude={"table": True, "class_labels": True, "request": {"data_root"}}
    )


def read_table(file: SplitFile, path: Path) -> Manifest:
    """Read the table that ``split.json`` names, and compare both.

    Args:
        file: content of ``split.json``.
        path: path of ``split.json``; the table lies beside it.

    Raises:
        DataError: the table is missing or damaged, one of the two was edited, or they are of different
            splits.
    """
    table = path.parent / file.table
    try:
        content = table.read_bytes()
    except OSError as error:
        raise DataError(f"{table}: cannot be read ({error.strerror}); {REPAIR}") from error
    if table_name(content) != file.table:
        raise DataError(f"{table}: damaged or edited: digest {table_name(content)[6:18]} found; {REPAIR}")
    root = file.request.data_root
    try:
        manifest, about = parse_manifest(content, None if root is None else Path(root))
    except DataError as error:
        raise DataError(f"{table}: {error}; {REPAIR}") from error
    except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        raise DataError(f"{table}: no table of a split ({one_line(error)[:120]}); {REPAIR}") from error
    for key, value in about_table(file).items():
        found, expected = str(value)[:60], str(about.get(key))[:60]
        if value != about.get(key):
            raise DataError(f"{path}: {key} was edited: {found} found, {expected} expected; {REPAIR}")
    return manifest


def with_table(file: SplitFile, manifest: Manifest) -> SplitFile:
    """Return ``split.json`` with the digests of a manifest, and the name of the table that holds both."""
    file = file.model_copy(
        update={
            "counts": {part: int((manifest.parts == code).sum()) for part, code in PART_CODES.items()},
            "manifest_digest": manifest.digest,
            "manifest_fingerprint": manifest.fingerprint,
            "fingerprint": compute_fingerprint(manifest, file.class_names, file.num_old),
        }
    )
    return file.model_copy(update={"table": table_name(serialise_table(file, manifest))})


def serialise_table(file: SplitFile, manifest: Manifest) -> bytes:
    """Return the bytes of a split's table."""
    return manifest.serialise(about_table(file))


def table_name(content: bytes) -> str:
    """Return the name of a table's file, which has the beginning of the SHA-256 digest of its bytes."""
    return f"split-{hashlib.sha256(content).hexdigest()[:16]}.arrow"


def remove_other_tables(folder: Path, name: str) -> None:
    """Remove all tables of splits in a folder but the one called ``name``."""
    for path in folder.glob(TABLE_FILES):
        if path.name != name and re.fullmatch(TABLE_PATTERN, path.name):
            path.unlink(missing_ok=True)


def compute_fingerprint(manifest: Manifest, class_names: Sequence[str], num_old: int) -> str:
    """Compute the digest of a manifest and the class order, which checkpoints carry."""
    content = json.dumps([manifest.fingerprint, list(class_names), num_old])
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
