"""The split: which classes are old and which pictures are in which part; made, written and read here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.data.classes import ClassSplit, label_map, split_classes
from mptctl.data.duplicates import Duplicates, describe_identical, find_identical, keep_out_copies
from mptctl.data.further_columns import keep_columns
from mptctl.data.group_column import find_groups
from mptctl.data.holding_out import (
    choose_val_fraction,
    hold_out,
    hold_out_test_part,
    keep_out_torn_groups,
    refuse_empty_classes,
)
from mptctl.data.listing.listing import Checks
from mptctl.data.manifest import PART_CODES, VAL, Manifest
from mptctl.data.sources import EMBEDDED, load_array, read_source, scan_listed
from mptctl.data.split_file import (
    SPLIT_NAME,
    SplitFile,
    SplitRequest,
    parse_split_file,
    read_split_file,
    read_table,
    refuse_foreign_split,
    remove_other_tables,
    serialise_table,
    with_table,
)
from mptctl.errors import DataError, UsageError
from mptctl.files import locked_folder, remove_partial_files, write_atomically
from mptctl.names import Part, Progress, Source, Verify, tell_nobody
from mptctl.recipe import differences

# Folder in the run root for decoded and drawn pictures, and logits of teachers.
CACHE_NAME = "cache"


@dataclass(frozen=True, eq=False)
class Split:
    """A split and its manifest of M pictures.

    Attributes:
        file: content of ``split.json``.
        manifest: one row for each picture, whatever its part.
        classes: class names, old ones first.
        labels: (M,) int64 index into ``classes.names``.
        fingerprint: digest of manifest and class order, which checkpoints carry.
        run_root, folder: the run root, and the folder of ``split.json``: the run root or a run's folder.
    """

    file: SplitFile
    manifest: Manifest
    classes: ClassSplit
    labels: NDArray[np.int64]
    fingerprint: str
    run_root: Path
    folder: Path

    def indices(self, part: Part, num_classes: int | None = None) -> NDArray[np.int64]:
        """Return (n,) rows of the manifest that are of one part, ascending.

        With ``num_classes``, only rows of the first ``num_classes`` classes count.
        """
        is_wanted = self.manifest.parts == PART_CODES[part]
        if num_classes is not None:
            is_wanted &= self.labels < num_classes
        return np.flatnonzero(is_wanted).astype(np.int64)

    def ids(self, indices: NDArray[np.int64]) -> NDArray[np.str_]:
        """Return the (n,) ids of rows, by which predictions of different programs are matched."""
        return self.manifest.ids(indices)

    def picture(self, index: int) -> NDArray[np.uint8]:
        """Read a picture as stored: (H, W, 3) uint8; DataError if its file is gone, changed or damaged."""
        from mptctl.data.pictures import decode_row  # which imports torch

        if self.manifest.is_array:
            picture: NDArray[np.uint8] = self.array[index]
            return picture
        self.manifest.check_unchanged(np.array([index]))
        return decode_row(self.manifest, index).numpy()

    @cached_property
    def array(self) -> NDArray[np.uint8]:
        """(M, H, W, 3) uint8 pictures of a source that is one array; read or drawn at the first use."""
        return load_array(self.manifest, seed=self.file.request.seed, cache_dir=self.run_root / CACHE_NAME)


def make_split(  # noqa: PLR0913  # what is not kept in split.json too
    source: Source,
    *,
    run_root: Path,
    data_root: Path | None = None,
    val_fraction: float | None = None,
    metadata: Path | None = None,
    verify: Verify = "header",
    overwrite: bool = False,
    download: bool = False,
    progress: Progress = tell_nobody,
    finish: Callable[[Split], Split] = lambda split: split,
    **division: Any,
) -> Split:
    """Divide a source into old and new classes and into parts, and write the split to ``run_root``.

    An existing split of the same request is returned as it is; no table or shard is read then.

    Args:
        source: name of the source.
        run_root: folder for ``split.json``, the manifest and further columns.
        data_root: folder of the data; None for the embedded sources.
        val_fraction: share of each class's training pictures to hold out; None: see `choose_val_fraction`.
        metadata: file with the column of groups; None: the source has it.
        verify: see `Checks`.
        overwrite, download: replace an existing split; fetch CIFAR if it is not there.
        progress: shows how many files are checked.
        finish: completes a new split before it is written; its errors leave no split behind.
        division: further fields of `SplitRequest`.

    Raises:
        UsageError: a value out of range, or an existing split of another request.
        DataError: no data, another layout, or bad files.
        StorageError: ``run_root`` cannot be written.
    """
    root = None if source in EMBEDDED or data_root is None else data_root.expanduser().resolve()
    asked = SplitRequest(source=source, data_root=None if root is None else str(root), **division)

    def complete(*, has_own_validation: bool) -> SplitRequest:
        share = choose_val_fraction(source, root, val_fraction, has_own=has_own_validation)
        return asked.model_copy(update={"val_fraction": share})

    if (run_root / SPLIT_NAME).exists() and not overwrite:
        kept = load_split(run_root)
        before = kept.file.request
        is_same_place = asked.place is not None and asked.place == before.place
        has_own = is_same_place and not before.val_fraction and VAL in kept.manifest.parts
        return _keep_or_refuse(kept, complete(has_own_validation=has_own), verify)
    checks = Checks(verify, asked.on_bad, progress)
    listed = None
    if asked.place is not None and root is not None:
        listed = scan_listed(source, asked.place, root, asked.columns, asked.label_key, checks)
    request = complete(has_own_validation=listed is not None and VAL in listed.manifest.parts)
    group = request.group
    further = [] if listed is None or listed.further is None else listed.further.column_names
    if group is not None and metadata is None and group not in further:
        raise UsageError(f"--group {group}: name the file that has this column with --metadata FILE")
    refuse_foreign_split(run_root / SPLIT_NAME)
    cache = run_root / CACHE_NAME
    seed = request.seed
    if listed is None:
        needs_test = request.test_fraction is None
        listed = read_source(
            source, root, checks, download=download, seed=seed, cache_dir=cache, needs_test=needs_test
        )
    groups = find_groups(listed.manifest, group, metadata, listed.further)
    manifest = hold_out_test_part(listed.manifest, request, groups)
    identical = None
    if source not in EMBEDDED:
        array = load_array(manifest, seed=seed, cache_dir=cache) if manifest.is_array else None
        identical = find_identical(manifest, verify=verify, array=array, progress=progress)
    split = finish(
        build_split(
            manifest,
            request,
            run_root,
            verify=verify,
            quarantined=listed.problems,
            identical=identical,
            groups=groups,
        )
    )
    if not save_split(split, replaces=overwrite):  # another process has written one meanwhile
        return _keep_or_refuse(load_split(run_root), request, verify)
    keep_columns(listed.further, split.manifest, run_root)
    return split


def _keep_or_refuse(existing: Split, request: SplitRequest, verify: Verify) -> Split:
    """Return the existing split if it is of the same request; else raise UsageError."""
    if changes := _find_changes(existing.file, request, verify):
        lines = [f"{key}: {was} -> {now}" for key, was, now in changes]
        raise UsageError(
            f"{existing.run_root / SPLIT_NAME}: holds another split ({'; '.join(lines)}); "
            "replace it with --overwrite, or choose another --run-root"
        )
    return existing


def _find_changes(file: SplitFile, request: SplitRequest, verify: Verify) -> list[tuple[str, Any, Any]]:
    """Return the arguments by which a request would make another split: name, value there, value here.

    What is done with bad or identical pictures counts only where there are any, and a weaker check never.
    """
    copies = 0 if file.duplicates is None else file.duplicates.kept_out
    has_effect = {
        "on_bad": len(file.quarantined) > copies,
        "on_duplicates": file.duplicates is not None and bool(file.duplicates.listed),
    }
    changes = [each for each in differences(file.request, request) if has_effect.get(each[0], True)]
    return changes if verify in (file.verify, "header") else [*changes, ("verify", file.verify, verify)]


def save_split(split: Split, *, replaces: bool = True) -> bool:
    """Write a split to its run root; a kill leaves either the earlier split or the new one.

    The table is written before ``split.json`` names it, and earlier tables are removed last.

    Returns:
        False where the run root has a split and ``replaces`` is False: nothing is written.

    Raises:
        StorageError: the run root cannot be written.
    """
    root, name = split.run_root, split.file.table
    with locked_folder(root):
        if not replaces and (root / SPLIT_NAME).exists():
            return False
        write_table(split, root)
        write_atomically(root / SPLIT_NAME, (split.file.model_dump_json(indent=2) + "\n").encode())
        remove_other_tables(root, name)
        remove_partial_files(root, "split")
    return True


def write_table(split: Split, folder: Path) -> None:
    """Write the table of a split into a folder; StorageError if that fails."""
    write_atomically(folder / split.file.table, serialise_table(split.file, split.manifest))


def build_split(
    manifest: Manifest,
    request: SplitRequest,
    run_root: Path,
    *,
    verify: Verify = "header",
    quarantined: Sequence[str] = (),
    identical: NDArray[np.int64] | None = None,
    groups: NDArray[np.str_] | None = None,
) -> Split:
    """Divide the pictures of a manifest into classes and parts as a request says; nothing is written.

    Args:
        manifest: the pictures, with parts TRAIN, TEST, BAD, and perhaps VAL.
        request: the arguments of `split`.
        run_root: folder that the split belongs to.
        verify: see `make_split`.
        quarantined: one line for each picture of the part BAD.
        identical: see `find_identical`; None: pictures were not compared.
        groups: (M,) name of each picture's group; None: without groups.

    Raises:
        UsageError: the source has no such classes.
        DataError: a class has no training picture left, or as in `keep_out_torn_groups`.
    """
    classes = split_classes(
        manifest.class_names,
        old_fraction=request.old_fraction,
        old_names=request.old_names,
        order=request.order,
        seed=request.seed,
    )
    if groups is not None:
        parts, torn = keep_out_torn_groups(manifest, groups, request)
        manifest = replace(manifest, parts=parts)
        quarantined = [*quarantined, *torn]
    parts = hold_out(manifest, request.val_fraction, request.seed, groups)
    duplicates = None
    if identical is not None:
        duplicates = describe_identical(identical, manifest, parts, verify)
        if request.on_duplicates == "quarantine":
            parts, copies = keep_out_copies(identical, manifest, parts)
            quarantined = [*quarantined, *copies]
            if duplicates is not None:
                duplicates = duplicates.model_copy(update={"kept_out": len(copies)})
    manifest = replace(manifest, parts=parts)
    refuse_empty_classes(manifest)
    return split_of(
        manifest, classes, request, run_root, verify=verify, quarantined=quarantined, duplicates=duplicates
    )


def split_of(
    manifest: Manifest,
    classes: ClassSplit,
    request: SplitRequest,
    run_root: Path,
    *,
    verify: Verify,
    quarantined: Sequence[str],
    duplicates: Duplicates | None = None,
) -> Split:
    """Make the split of a manifest with its final parts and classes; arguments: see `build_split`."""
    file = SplitFile(
        request=request,
        class_names=list(classes.names),
        num_old=classes.num_old,
        quarantined=list(quarantined),
        duplicates=duplicates,
        verify=verify,
    )
    return _with_labels(with_table(file, manifest), manifest, run_root)


def load_split(run_root: Path) -> Split:
    """Read the split of a run root.

    Raises:
        UsageError: there is no split.
        DataError: the split is damaged, was edited, or has the manifest of another split.
    """
    content = read_split_file(run_root)
    while True:
        try:
            return _parse(content, run_root)
        except DataError:
            now = read_split_file(run_root)
            if now == content:
                raise
            content = now  # another process has replaced the split in between


def _parse(content: bytes, run_root: Path) -> Split:
    """Make the split of the content of ``split.json`` and its table; DataError unless they fit."""
    path = run_root / SPLIT_NAME
    file = parse_split_file(content, path)
    return _with_labels(file, read_table(file, path), run_root)


def _with_labels(file: SplitFile, manifest: Manifest, run_root: Path) -> Split:
    """Make a split whose labels are in the class order of ``split.json``, not of the manifest."""
    classes = ClassSplit(tuple(file.class_names), file.num_old)
    labels = label_map(manifest.class_names, classes.names)[manifest.labels]
    return Split(file, manifest, classes, labels, file.fingerprint, run_root, run_root)
