"""The split: which classes are old, which pictures are held out, written once and found by every verb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.classes import ClassSplit, label_map, split_classes
from mptctl.data.duplicates import Duplicates, describe, find_identical, keep_out_copies
from mptctl.data.further_columns import keep_columns
from mptctl.data.group_column import as_groups, read_groups
from mptctl.data.holding_out import (
    hold_out,
    hold_out_by_groups,
    part_held_out,
    refuse_empty_classes,
    with_test_part,
)
from mptctl.data.listing.image_folder import list_pictures
from mptctl.data.listing.listed_source import Checks, scan_listed
from mptctl.data.manifest import PART_CODES, VAL, Manifest, load_manifest
from mptctl.data.moved import move
from mptctl.data.sources import EMBEDDED, load_array, read_source
from mptctl.data.split_file import (
    REPAIR,
    SPLIT_NAME,
    SplitFile,
    SplitRequest,
    counts_of,
    digest_of,
    fingerprint_of,
    manifest_name,
    parse_split_file,
    refuse_edited,
    refuse_foreign_split,
    remove_other_manifests,
)
from mptctl.errors import DataError, UsageError
from mptctl.files import locked_folder, remove_partial_files, replacing
from mptctl.names import OnBad, OnDuplicates, Order, Part, Progress, Source, Verify, tell_nobody
from mptctl.recipe import differences

# Below the run root: decoded and drawn pictures, and what teachers said.
CACHE_NAME = "cache"


@dataclass(frozen=True, eq=False)
class Split:
    """A split and its manifest.

    Attributes:
        file: what stands in ``split.json``.
        manifest: every picture, one row each; the one index space of all parts.
        classes: class names, old ones first.
        labels: (M,) int64 label of each row in class order; -1 for a class that it does not take, so of no
            part.
        fingerprint: digest that checkpoints carry.
        run_root, folder: the run root, and the folder that holds ``split.json``: it, or that of a run.
    """

    file: SplitFile
    manifest: Manifest
    classes: ClassSplit
    labels: NDArray[np.int64]
    fingerprint: str
    run_root: Path
    folder: Path

    def indices(self, part: Part, num_classes: int | None = None) -> NDArray[np.int64]:
        """Rows of one part, ascending; with ``num_classes`` only those of the first so many classes.

        Returns:
            (n,) rows of the manifest.
        """
        mask = (self.manifest.parts == PART_CODES[part]) & (self.labels >= 0)
        if num_classes is not None:
            mask &= self.labels < num_classes
        return np.flatnonzero(mask).astype(np.int64)

    def ids(self, indices: NDArray[np.int64]) -> NDArray[np.str_]:
        """(n,) names of rows by which predictions of different programs are matched."""
        return self.manifest.ids(indices)

    def picture(self, index: int) -> NDArray[np.uint8]:
        """A picture as it is stored, (H, W, 3) uint8.

        Raises:
            DataError: its file is gone, changed or damaged.
        """
        from mptctl.data.pictures import rgb

        if self.manifest.is_array:
            picture: NDArray[np.uint8] = self.array[index]
            return picture
        self.manifest.check_unchanged(np.array([index]))
        data = self.manifest.read(index)
        try:
            return rgb(data)
        except (OSError, SyntaxError, ValueError) as error:
            raise DataError(
                f"{self.manifest.where(index)}: cannot be decoded; run split --verify decode --overwrite"
            ) from error

    def moved_to(self, root: Path) -> Split:
        """The split with its pictures in another folder; errors as `move`."""
        manifest = move(self.manifest, root)
        request = self.file.request.model_copy(update={"data_root": str(root)})
        file = self.file.model_copy(update={"request": request, "manifest": manifest_name(manifest)})
        return replace(self, file=file, manifest=manifest)

    @cached_property
    def array(self) -> NDArray[np.uint8]:
        """(M, H, W, 3) uint8: every picture of a source that is one array, not a folder of files."""
        return load_array(self.manifest, seed=self.file.request.seed, cache_dir=self.run_root / CACHE_NAME)


def make_split(  # noqa: PLR0913  # one for each flag of `split`
    source: Source,
    *,
    run_root: Path,
    data_root: Path | None = None,
    old_fraction: float = 0.5,
    old_names: Sequence[str] | None = None,
    class_fraction: float = 1.0,
    order: Order = "given",
    seed: int = 0,
    val_fraction: float | None = None,
    group: str | None = None,
    metadata: Path | None = None,
    place: str | None = None,
    columns: Mapping[str, str] | None = None,
    label_key: str | None = None,
    test_fraction: float | None = None,
    verify: Verify = "header",
    on_bad: OnBad = "fail",
    on_duplicates: OnDuplicates = "keep",
    overwrite: bool = False,
    download: bool = False,
    progress: Progress = tell_nobody,
) -> Split:
    """Divide a source into old and new classes and into parts, and write it to ``run_root``.

    An existing split of the same request is kept and returned; no table or shard is read then.

    Args:
        source: its name.
        run_root: folder for ``split.json`` and its manifest.
        data_root: folder of the data.
        old_fraction, old_names, class_fraction, order: as of `split_classes`.
        seed: seed of the random class order, of the validation part, and of how characters are drawn.
        val_fraction: part of each class's training pictures to hold out, below 1; see `part_held_out`.
        group, metadata: column of a file, or of the table or shards, whose groups lie in one part each.
        place, columns, label_key: as of `scan_table` and `scan_shards`.
        test_fraction: part of each class that becomes the test part, where there is none.
        verify: ``header``, or ``decode`` to decode every file as well.
        on_bad: ``fail`` on bad files, or ``quarantine`` to keep them out.
        on_duplicates: ``keep`` identical pictures, or ``quarantine`` training copies.
        overwrite, download: replace an existing split; fetch CIFAR where it is not there.
        progress: told how many files are checked.

    Raises:
        UsageError: a value out of range, or an existing split of another request.
        DataError: no data, another layout, or bad files. StorageError: ``run_root`` cannot be written.
    """
    root = None if source in EMBEDDED or data_root is None else data_root.expanduser().resolve()
    kept = load_split(run_root) if (run_root / SPLIT_NAME).exists() and not overwrite else None
    checks: Checks = {"verify": verify, "on_bad": on_bad, "progress": progress}
    listed = None if kept else scan_listed(source, place, root, columns or {}, label_key, checks)
    known = kept or listed
    has_own = place is not None and known is not None and VAL in known.manifest.parts
    has_own &= kept is None or (kept.file.request.place == place and not kept.file.request.val_fraction)
    request = SplitRequest(
        source=source,
        data_root=None if root is None else str(root),
        old_fraction=old_fraction,
        old_names=None if old_names is None else list(old_names),
        class_fraction=class_fraction,
        order=order,
        seed=seed,
        val_fraction=part_held_out(source, root, val_fraction, has_own=has_own),
        place=place,
        columns=dict(columns or {}),
        label_key=label_key,
        test_fraction=test_fraction,
        group=group,
    )
    if kept is not None:
        return _same(kept, request)
    own_groups = None if listed is None or group is None else listed.further.get(group)
    if group is not None and metadata is None and own_groups is None:
        raise UsageError(f"--group {group}: name the file that has this column with --metadata FILE")
    refuse_foreign_split(run_root / SPLIT_NAME)
    if listed is not None:
        manifest, quarantined = listed.manifest, listed.problems
    else:
        manifest, quarantined = read_source(
            source,
            root,
            download=download,
            seed=seed,
            cache_dir=run_root / CACHE_NAME,
            needs_test=test_fraction is None,
            **checks,
        )
    groups = None if own_groups is None else as_groups(own_groups)
    if group is not None and metadata is not None:
        groups = read_groups(metadata, group, manifest)
    manifest = with_test_part(manifest, test_fraction, seed, groups)
    identical = None
    if source not in EMBEDDED:
        cache = run_root / CACHE_NAME
        array = load_array(manifest, seed=seed, cache_dir=cache) if manifest.is_array else None
        identical = find_identical(manifest, verify=verify, array=array, progress=progress)
    split = build_split(
        manifest,
        request,
        run_root,
        verify=verify,
        quarantined=quarantined,
        identical=identical,
        on_duplicates=on_duplicates,
        groups=groups,
        on_bad=on_bad,
    )
    save_split(split)
    keep_columns(listed.further if listed else {}, split.manifest, run_root)
    return split


def _same(existing: Split, request: SplitRequest) -> Split:
    """The split of a run root, of pictures that may have moved; UsageError for another request."""
    found = differences(existing.file.request, request)
    if [key for key, _, _ in found] == ["data_root"] and request.data_root is not None:
        root = Path(request.data_root)
        with suppress(DataError):  # other pictures are there
            if request.source != "imagefolder" or len(list_pictures(root).paths) == len(existing.manifest):
                moved = existing.moved_to(root)
                save_split(moved)
                return moved
    if changed := [f"{key}: {was} -> {now}" for key, was, now in found]:
        raise UsageError(
            f"{existing.run_root / SPLIT_NAME}: holds another split ({'; '.join(changed)}); "
            "replace it with --overwrite, or choose another --run-root"
        )
    return existing


def save_split(split: Split) -> None:
    """Write a split; a process that is killed here leaves the old one or the new one.

    The manifest has a name of its own, and is there before ``split.json`` names it; the old one goes last.
    """
    root, name = split.run_root, split.file.manifest
    with locked_folder(root):
        split.manifest.save(root / name)
        with replacing(root / SPLIT_NAME) as stream:
            stream.write((split.file.model_dump_json(indent=2) + "\n").encode())
        remove_other_manifests(root, name)
        for kind in ("manifest", SPLIT_NAME):
            remove_partial_files(root, kind)


def build_split(  # noqa: PLR0913  # one for each thing that was found out about the pictures
    manifest: Manifest,
    request: SplitRequest,
    run_root: Path,
    *,
    verify: Verify = "header",
    quarantined: Sequence[str] = (),
    identical: NDArray[np.int64] | None = None,
    on_duplicates: OnDuplicates = "keep",
    groups: NDArray[np.str_] | None = None,
    on_bad: OnBad = "fail",
) -> Split:
    """Divide a manifest as a request says, and write nothing.

    Args:
        manifest: with parts TRAIN, TEST and BAD.
        request: what is asked for.
        run_root: the folder that the split belongs to.
        verify, on_duplicates: as of `make_split`.
        quarantined: one line for each file that is kept out.
        identical: as of `find_identical`; None: nobody looked.
        groups: (M,) name of each picture's group; None: each is one by itself.
        on_bad: what becomes of groups that the source has in several parts.

    Raises:
        UsageError: classes that the source does not have. DataError: a class is left without training
            pictures.
    """
    classes = split_classes(
        manifest.class_names,
        old_fraction=request.old_fraction,
        old_names=request.old_names,
        class_fraction=request.class_fraction,
        order=request.order,
        seed=request.seed,
    )
    duplicates = None
    if groups is None:
        parts = hold_out(manifest, request.val_fraction, request.seed)
    else:
        parts, torn = hold_out_by_groups(manifest, groups, request, on_bad)
        quarantined = [*quarantined, *torn]
    if identical is not None:
        duplicates = describe(identical, manifest, parts, verify)
        if on_duplicates == "quarantine":
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
    """Make the split of a manifest whose parts and classes are decided; arguments as of `build_split`."""
    file = SplitFile(
        request=request,
        class_names=list(classes.names),
        num_old=classes.num_old,
        counts=counts_of(manifest, classes.names),
        quarantined=list(quarantined),
        duplicates=duplicates,
        verify=verify,
        manifest=manifest_name(manifest),
        manifest_fingerprint=manifest.fingerprint,
        fingerprint=fingerprint_of(manifest, classes.names, classes.num_old),
        request_digest=digest_of(request),
    )
    return _with_labels(file, manifest, run_root)


def load_split(run_root: Path) -> Split:
    """Read the split of a run root.

    Raises:
        UsageError: there is none.
        DataError: it is damaged, was edited, or its manifest is that of another split.
    """
    content = _read_split_file(run_root)
    while True:
        try:
            return _parse(content, run_root)
        except DataError:
            now = _read_split_file(run_root)
            if now == content:
                raise
            content = now  # another process has replaced the split in between


def _read_split_file(run_root: Path) -> bytes:
    path = run_root / SPLIT_NAME
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no {SPLIT_NAME} in {run_root}; run mptctl split SOURCE first") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error


def _parse(content: bytes, run_root: Path) -> Split:
    path = run_root / SPLIT_NAME
    file = parse_split_file(content, path)
    root = file.request.data_root
    manifest = load_manifest(run_root / file.manifest, None if root is None else Path(root))
    refuse_edited(file, manifest, path)
    try:
        return _with_labels(file, manifest, run_root)
    except UsageError as error:
        raise DataError(f"{path}: {error}; {REPAIR}") from error


def _with_labels(file: SplitFile, manifest: Manifest, run_root: Path) -> Split:
    """The split whose labels number the classes in the order of its file, not of its manifest."""
    classes = ClassSplit(tuple(file.class_names), file.num_old)
    labels = label_map(manifest.class_names, classes.names)[manifest.labels]
    return Split(file, manifest, classes, labels, file.fingerprint, run_root, run_root)
