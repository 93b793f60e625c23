"""The split: which classes are old, which pictures are held out, written once and found by every verb."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mptctl.classes import ClassSplit, label_map, split_classes
from mptctl.data.manifest import BAD, PART_CODES, TRAIN, VAL, Manifest, Part, load_manifest
from mptctl.data.plan import VALIDATION_FIELD, random_keys
from mptctl.data.sources import EMBEDDED, OnBad, array_of, read_source
from mptctl.data.verify import Progress, Verify
from mptctl.errors import DataError, UsageError
from mptctl.recipe import Source, differences
from mptctl.storage import replacing

SPLIT_NAME, MANIFEST_NAME, CACHE_NAME = "split.json", "manifest.npz", "cache"


class SplitRequest(BaseModel):
    """What `mptctl split` was asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Source = Field(description="where the pictures come from")
    data_root: str | None = Field(description="folder of the data; null for the embedded sources")
    old_fraction: float = Field(description="part of the classes that is old, where they are not named")
    old_names: list[str] | None = Field(description="old classes by name, as --old-classes gave them")
    order: Literal["given", "random"] = Field(description="order of the classes before they are divided")
    seed: int = Field(description="seed of the random order, the validation part and the characters")
    val_fraction: float = Field(description="part of each class's training pictures that is held out")


class SplitFile(BaseModel):
    """`split.json`: everything about a split but the rows of its manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = Field(1, description="version of this file")
    request: SplitRequest = Field(description="what split was asked for")
    class_names: list[str] = Field(description="every class, old ones first: the order of the logits")
    num_old: int = Field(description="how many of them are old")
    counts: dict[Part, int] = Field(description="pictures in each part")
    quarantined: list[str] = Field(description="pictures that are kept out, each with what is wrong with it")
    verify: Verify = Field(description="how the files were checked: header, or decode")
    manifest: str = Field(MANIFEST_NAME, description="file with one row a picture, beside this one")
    manifest_fingerprint: str = Field(description="digest of the manifest")
    fingerprint: str = Field(description="digest of the manifest and the class order")

    @property
    def source(self) -> Source:
        """Where the pictures come from."""
        return self.request.source


@dataclass(frozen=True, eq=False)
class Split:
    """A split and its manifest.

    Attributes:
        file: what stands in ``split.json``.
        manifest: every picture, one row each; the one index space of all parts.
        classes: class names, old ones first.
        labels: (M,) int64 label of each row in class order.
        fingerprint: digest that checkpoints carry.
        run_root: the folder that holds ``split.json``.
    """

    file: SplitFile
    manifest: Manifest
    classes: ClassSplit
    labels: NDArray[np.int64]
    fingerprint: str
    run_root: Path

    def indices(self, part: Part, num_classes: int | None = None) -> NDArray[np.int64]:
        """Rows of one part, ascending; with ``num_classes`` only those of the first so many classes.

        Returns:
            (n,) rows of the manifest.
        """
        mask = self.manifest.parts == PART_CODES[part]
        if num_classes is not None:
            mask &= self.labels < num_classes
        return np.flatnonzero(mask).astype(np.int64)

    def ids(self, indices: NDArray[np.int64]) -> NDArray[np.str_]:
        """(n,) names of rows by which predictions of different programs are matched."""
        return self.manifest.ids(indices)

    def picture(self, index: int) -> NDArray[np.uint8]:
        """One picture as it is stored, (H, W, 3) uint8.

        Raises:
            DataError: its file is gone, changed or damaged.
        """
        from mptctl.data.pictures import rgb

        if not self.manifest.has_files:
            picture: NDArray[np.uint8] = self.array[index]
            return picture
        self.manifest.check_unchanged(np.array([index]))
        path = Path(self.manifest.file(index))
        try:
            return rgb(path.read_bytes())
        except (OSError, SyntaxError, ValueError) as error:
            raise DataError(f"{path}: cannot be decoded; run split --verify decode --overwrite") from error

    @cached_property
    def array(self) -> NDArray[np.uint8]:
        """(M, H, W, 3) uint8: every picture of a source that is one array, not a folder of files."""
        return array_of(self.manifest, seed=self.file.request.seed, cache_dir=self.run_root / CACHE_NAME)


def make_split(
    source: Source,
    *,
    run_root: Path,
    data_root: Path | None = None,
    old_fraction: float = 0.5,
    old_names: Sequence[str] | None = None,
    order: Literal["given", "random"] = "given",
    seed: int = 0,
    val_fraction: float = 0.1,
    verify: Verify = "header",
    on_bad: OnBad = "fail",
    overwrite: bool = False,
    download: bool = False,
    progress: Progress | None = None,
) -> Split:
    """Divide a source into old and new classes and into parts, and write it to ``run_root``.

    An existing split of the same request is kept and returned.

    Args:
        source: ``characters``, ``digits``, ``cifar10``, ``cifar100`` or ``imagefolder``.
        run_root: folder for ``split.json`` and its manifest.
        data_root: folder of the data.
        old_fraction, old_names, order: which classes are old; see `split_classes`.
        seed: seed of the random class order, of the validation part, and of how characters are drawn.
        val_fraction: part of each class's training pictures that is held out, from 0 to below 1.
        verify: ``header``, or ``decode`` to decode every file as well.
        on_bad: ``fail`` on bad files, or ``quarantine`` to keep them out.
        overwrite: replace an existing split.
        download: fetch CIFAR where it is not there.
        progress: called with (files checked, files in all).

    Raises:
        UsageError: a value out of range, or an existing split of another request.
        DataError: no data, another layout than expected, or bad files.
        StorageError: ``run_root`` cannot be written.
    """
    if not 0.0 <= val_fraction < 1.0:
        raise UsageError(f"--val-fraction {val_fraction}: must be at least 0 and below 1")
    root = None if source in EMBEDDED or data_root is None else data_root.expanduser().resolve()
    request = SplitRequest(
        source=source,
        data_root=None if root is None else str(root),
        old_fraction=old_fraction,
        old_names=None if old_names is None else list(old_names),
        order=order,
        seed=seed,
        val_fraction=val_fraction,
    )
    if (run_root / SPLIT_NAME).exists() and not overwrite:
        existing = load_split(run_root)
        changed = differences(existing.file.request, request)
        if changed:
            raise UsageError(
                f"{run_root / SPLIT_NAME}: holds another split ({'; '.join(changed)}); "
                "replace it with --overwrite, or choose another --run-root"
            )
        return existing
    manifest, quarantined = read_source(
        source,
        root,
        verify=verify,
        on_bad=on_bad,
        download=download,
        progress=progress,
        seed=seed,
        cache_dir=run_root / CACHE_NAME,
    )
    split = divide(manifest, request, run_root, verify=verify, quarantined=quarantined)
    split.manifest.save(run_root / MANIFEST_NAME)
    with replacing(run_root / SPLIT_NAME) as stream:
        stream.write((split.file.model_dump_json(indent=2) + "\n").encode())
    return split


def divide(
    manifest: Manifest,
    request: SplitRequest,
    run_root: Path,
    *,
    verify: Verify = "header",
    quarantined: Sequence[str] = (),
) -> Split:
    """Divide a manifest as a request says, and write nothing.

    Args:
        manifest: with parts TRAIN, TEST and BAD.
        request: what is asked for.
        run_root: the folder that the split belongs to.
        verify: how the files were checked.
        quarantined: one line for each file that is kept out.

    Raises:
        UsageError: classes that the source does not have.
        DataError: a class would be left without training pictures.
    """
    classes = split_classes(
        manifest.class_names,
        old_fraction=request.old_fraction,
        old_names=request.old_names,
        order=request.order,
        seed=request.seed,
    )
    manifest = manifest.with_parts(_hold_out(manifest, request.val_fraction, request.seed))
    _refuse_empty_classes(manifest)
    counts = {part: int(np.count_nonzero(manifest.parts == code)) for part, code in PART_CODES.items()}
    file = SplitFile(
        request=request,
        class_names=list(classes.names),
        num_old=classes.num_old,
        counts=counts,
        quarantined=list(quarantined),
        verify=verify,
        manifest_fingerprint=manifest.fingerprint,
        fingerprint=_fingerprint(manifest, classes),
    )
    return _join(file, manifest, run_root)


def load_split(run_root: Path) -> Split:
    """Read the split of a run root.

    Raises:
        UsageError: there is none.
        DataError: it is damaged, or its manifest is that of another split.
    """
    path = run_root / SPLIT_NAME
    try:
        file = SplitFile.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no {SPLIT_NAME} in {run_root}; run mptctl split SOURCE first") from error
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"]) or "file"
        raise DataError(
            f"{path}: {where}: {problem['msg']}; run mptctl split again with --overwrite"
        ) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    root = file.request.data_root
    manifest = load_manifest(run_root / file.manifest, None if root is None else Path(root))
    if manifest.fingerprint != file.manifest_fingerprint:
        raise DataError(
            f"{run_root / file.manifest}: not the manifest of {path} "
            f"({manifest.fingerprint[:12]} instead of {file.manifest_fingerprint[:12]}); "
            "run mptctl split again with --overwrite"
        )
    return _join(file, manifest, run_root)


def _join(file: SplitFile, manifest: Manifest, run_root: Path) -> Split:
    classes = ClassSplit(tuple(file.class_names), file.num_old)
    labels = label_map(manifest.class_names, classes.names)[manifest.labels]
    return Split(file, manifest, classes, labels, file.fingerprint, run_root)


def _hold_out(manifest: Manifest, val_fraction: float, seed: int) -> NDArray[np.uint8]:
    """Move a part of each class's training rows to the validation part.

    Which ones depends on the seed and each row's index alone, so that a bad file that is kept out
    changes at most one other row.
    """
    parts = manifest.parts.copy()
    rows = np.flatnonzero(parts == TRAIN)
    keys = random_keys(seed, 0, rows, VALIDATION_FIELD)
    ordered = rows[np.lexsort((keys, manifest.labels[rows]))]
    labels = manifest.labels[ordered]
    starts = np.searchsorted(labels, labels)
    sizes = np.bincount(labels, minlength=len(manifest.class_names))[labels]
    held = np.floor(sizes * val_fraction + 0.5)
    parts[ordered[np.arange(len(ordered)) - starts < held]] = VAL
    return parts


def _refuse_empty_classes(manifest: Manifest) -> None:
    seen = np.bincount(manifest.labels[manifest.parts == TRAIN], minlength=len(manifest.class_names))
    empty = [manifest.class_names[i] for i in np.flatnonzero(seen == 0)]
    if empty:
        kept_out = int(np.count_nonzero(manifest.parts == BAD))
        raise DataError(
            f"no training picture is left of {len(empty)} classes, {empty[0]} first "
            f"({kept_out} pictures kept out); add pictures or lower --val-fraction"
        )


def _fingerprint(manifest: Manifest, classes: ClassSplit) -> str:
    content = json.dumps([manifest.fingerprint, list(classes.names), classes.num_old])
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
