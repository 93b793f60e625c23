"""Chooses the pictures of the validation part and of a test part, of each class or by whole groups."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.listing.image_folder import find_part_folders
from mptctl.data.manifest import BAD, PART_NAMES, TEST, TRAIN, VAL, Manifest
from mptctl.data.plan import TEST_FIELD, VALIDATION_FIELD, random_keys
from mptctl.data.split_file import SplitRequest
from mptctl.errors import DataError, UsageError, some
from mptctl.names import Source

# Share of each class's training pictures that is held out by default. The demo `characters` holds out more:
# on a tenth of its pictures the flips of two updates could hardly be told apart.
VAL_FRACTION, CHARACTERS_VAL_FRACTION = 0.1, 0.2
# Passes over all groups after the first one, which may also put a group back.
_PASSES = 4


def choose_val_fraction(
    source: Source, root: Path | None, asked: float | None, *, has_own: bool = False
) -> float:
    """Return the share of each class's training pictures to hold out for validation.

    Args:
        source: name of the source.
        root: data folder; an image folder may have a validation part in it.
        asked: the share that the user asked for, from 0 to below 1; None: the default.
        has_own: True where a table or shards have a validation part themselves.

    Returns:
        ``asked``, or by default 0.0 where the source has a validation part, `CHARACTERS_VAL_FRACTION` for
        ``characters``, and `VAL_FRACTION` else.

    Raises:
        UsageError: ``asked`` is out of range, or the source has a validation part itself.
    """
    if source == "imagefolder" and root is not None:
        has_own |= VAL in find_part_folders(root).values()
    if has_own and asked:
        raise UsageError(
            f"--val-fraction {asked:g}: {root} has a validation part and a test part; leave it out"
        )
    if asked is None:
        by_default = CHARACTERS_VAL_FRACTION if source == "characters" else VAL_FRACTION
        return 0.0 if has_own else by_default
    if not 0.0 <= asked < 1.0:
        raise UsageError(f"--val-fraction {asked}: must be at least 0 and below 1")
    return asked


def hold_out(
    manifest: Manifest,
    fraction: float,
    seed: int,
    groups: NDArray[np.str_] | None = None,
    part: int = VAL,
    field: int = VALIDATION_FIELD,
) -> NDArray[np.uint8]:
    """Choose a share of each class's training rows, or whole groups of them, for the validation part.

    Without groups the choice depends on the seed and each row's index alone, so that a bad file that is kept
    out changes at most one other row.

    Args:
        manifest: the M pictures; stays as it is.
        fraction: share of each class's training rows, from 0 to below 1; rounded to the nearest row.
        seed, field: seed and field of the random numbers; see `random_keys`.
        groups: (M,) name of each picture's group; None: without groups.
        part: the part that chosen rows get.

    Returns:
        (M,) part of each row: ``part`` for chosen rows, else that of the manifest.
    """
    parts = manifest.parts.copy()
    rows = np.flatnonzero(parts == TRAIN)
    if groups is not None:
        parts[rows[hold_out_groups(manifest.labels[rows], groups[rows], fraction, seed, field)]] = part
        return parts
    keys = random_keys(seed, 0, rows, field)
    by_class_and_key = rows[np.lexsort((keys, manifest.labels[rows]))]
    labels = manifest.labels[by_class_and_key]
    rank_in_class = np.arange(len(labels)) - np.searchsorted(labels, labels)
    class_sizes = np.bincount(labels, minlength=len(manifest.class_names))
    to_hold_out = np.floor(class_sizes * fraction + 0.5)
    parts[by_class_and_key[rank_in_class < to_hold_out[labels]]] = part
    return parts


def hold_out_test_part(
    manifest: Manifest, request: SplitRequest, groups: NDArray[np.str_] | None
) -> Manifest:
    """Hold out a test part of a source that has none.

    Args:
        manifest: the M pictures; stays as it is.
        request: its ``test_fraction``, ``seed`` and ``place`` count here; without a fraction, the source has
            a test part.
        groups: (M,) name of each picture's group, which goes to one part as a whole; None: without groups.

    Returns:
        A manifest with a test part.

    Raises:
        UsageError: the fraction is out of range, or given for a source with a test part.
        DataError: the fraction is None, and a source of files has no test part.
    """
    fraction, place = request.test_fraction, request.place or manifest.root
    has_test = bool((manifest.parts == TEST).any())
    if fraction is None:
        if not has_test and not manifest.is_array:
            raise DataError(f"{place}: has no test part; hold one out with --test-fraction 0.2, or name one")
        return manifest
    if has_test:
        raise UsageError(f"--test-fraction {fraction:g}: {place} has a test part; leave it out")
    if not 0.0 < fraction < 1.0:
        raise UsageError(f"--test-fraction {fraction}: must be above 0 and below 1")
    return replace(manifest, parts=hold_out(manifest, fraction, request.seed, groups, TEST, TEST_FIELD))


def refuse_empty_classes(manifest: Manifest) -> None:
    """Raise DataError if a class has no training picture; the message names the first such class."""
    counts = np.bincount(manifest.labels[manifest.parts == TRAIN], minlength=len(manifest.class_names))
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        is_held_out = np.isin(empty, manifest.labels[manifest.parts == VAL]).any()
        advice = "add pictures or lower --val-fraction" if is_held_out else "add training pictures"
        kept_out = int(np.count_nonzero(manifest.parts == BAD))
        raise DataError(
            f"no training picture is left of {len(empty)} classes, {manifest.class_names[empty[0]]} first "
            f"({kept_out} pictures kept out); {advice}"
        )


def keep_out_torn_groups(
    manifest: Manifest, groups: NDArray[np.str_], request: SplitRequest
) -> tuple[NDArray[np.uint8], list[str]]:
    """Keep pictures out of a group that the source itself has in several parts, but for the last of them.

    Args:
        manifest: the M pictures; stays as it is.
        groups: (M,) name of each picture's group.
        request: its ``group``, the name of the column, and ``on_bad`` count here.

    Returns:
        (M,) part of each row, and a line for each picture that is kept out.

    Raises:
        DataError: `on_bad` is ``fail``, and the source has a group in several parts.
    """
    column, parts = str(request.group), manifest.parts
    is_torn = find_torn_groups(parts, groups, column, quarantine=request.on_bad == "quarantine")
    rows = np.flatnonzero(is_torn).tolist()
    lines = [f"{manifest.where(row)}: {column} {groups[row]} is in a later part too" for row in rows]
    return np.where(is_torn, np.uint8(BAD), parts), lines


def hold_out_groups(
    labels: NDArray[np.int32], groups: NDArray[np.str_], fraction: float, seed: int, field: int
) -> NDArray[np.bool_]:
    """Choose whole groups, so that of each class about a fraction is held out, and no class as a whole.

    Groups are visited in random order. A group changes sides if this brings the held-out shares of its
    classes nearer to the fraction, summed over classes. Where each group is of one class, the held-out
    pictures of a class differ from what was asked by at most half of its largest group.

    Args:
        labels: (n,) class of each picture.
        groups: (n,) name of each picture's group; a picture with "" is a group by itself.
        fraction: share of each class, from 0 to below 1.
        seed, field: seed and field of the random order (see `random_keys`); the place of a group in it
            depends on these and its name alone.

    Returns:
        (n,) True for a picture that is held out.
    """
    if not fraction or not len(labels):
        return np.zeros(len(labels), dtype=np.bool_)
    names, group = np.unique(_name_all_groups(groups), return_inverse=True)
    # A pair is a group and one of its classes; the pairs of a group stand together.
    num_classes = int(labels.max()) + 1
    pairs, pair_counts = np.unique(group.astype(np.int64) * num_classes + labels, return_counts=True)
    pair_groups, pair_labels = np.divmod(pairs, num_classes)
    starts = np.searchsorted(pair_groups, np.arange(len(names) + 1)).tolist()
    classes = pair_labels.tolist()
    counts = pair_counts.tolist()
    # By class: its pictures, how many are to be held out, and how many are.
    sizes = np.bincount(labels).astype(np.float64).tolist()
    wanted = [fraction * size for size in sizes]
    held = [0.0] * len(sizes)
    is_taken = np.zeros(len(names), dtype=np.bool_)
    order = np.argsort(random_keys(seed, 0, _hash_names(names), field), kind="stable").tolist()

    def gain_by_moving(pairs_of_group: range, sign: int) -> float:
        """Sum up how much nearer classes come to their fraction; 0 if all of a class would be held out."""
        gain = 0.0
        for pair in pairs_of_group:
            label = classes[pair]
            after = held[label] + sign * counts[pair]
            if after >= sizes[label]:
                return 0.0
            gain += (abs(held[label] - wanted[label]) - abs(after - wanted[label])) / sizes[label]
        return gain

    for _ in range(1 + _PASSES):
        has_changed = False
        for visited in order:
            pairs_of_group = range(starts[visited], starts[visited + 1])
            sign = -1 if is_taken[visited] else 1
            if gain_by_moving(pairs_of_group, sign) > 1e-12:  # more than an error of floating point
                has_changed = True
                is_taken[visited] = sign > 0
                for pair in pairs_of_group:
                    held[classes[pair]] += sign * counts[pair]
        if not has_changed:
            break
    return is_taken[group]


def find_torn_groups(
    parts: NDArray[np.uint8], groups: NDArray[np.str_], column: str, *, quarantine: bool
) -> NDArray[np.bool_]:
    """Find pictures of groups that the source itself has in several parts, or refuse such groups.

    Args:
        parts: (n,) TRAIN, VAL, TEST or BAD.
        groups: (n,) name of each picture's group.
        column: name of the column of groups, for the message.
        quarantine: False refuses such groups.

    Returns:
        (n,) True for a picture of such a group, unless it is in the last part that has the group.

    Raises:
        DataError: there are such groups, and ``quarantine`` is False.
    """
    group_names, group = np.unique(_name_all_groups(groups), return_inverse=True)
    used = parts != BAD
    first = np.full(int(group.max(initial=-1)) + 1, BAD, dtype=np.uint8)
    last = np.zeros(len(first), dtype=np.uint8)
    np.minimum.at(first, group[used], parts[used])
    np.maximum.at(last, group[used], parts[used])
    is_torn = used & (first[group] != last[group])
    if is_torn.any() and not quarantine:
        names = [
            f"{group_names[torn]} in {PART_NAMES[int(first[torn])]} and {PART_NAMES[int(last[torn])]}"
            for torn in np.unique(group[is_torn]).tolist()
        ]
        raise DataError(
            f"--group {column}: {len(names):,} groups lie in several parts of the source ({some(names)}); "
            "put each into one, or keep the copies in the earlier part out with --on-bad quarantine"
        )
    to_keep_out: NDArray[np.bool_] = is_torn & (parts != last[group])
    return to_keep_out


def _name_all_groups(groups: NDArray[np.str_]) -> NDArray[np.str_]:
    """Return the names of groups, with a unique name in place of each ""."""
    empty = np.flatnonzero(groups == "")
    if not empty.size:
        return groups
    named = groups.astype(object)
    named[empty] = [f"\0{row}" for row in empty.tolist()]
    return named.astype(np.str_)


def _hash_names(names: NDArray[np.str_]) -> NDArray[np.int64]:
    """Return a number for each name that depends on the name alone."""
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names.tolist()]
    return np.frombuffer(b"".join(digests), dtype=np.int64)
