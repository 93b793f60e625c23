"""Pictures that are held out: of each class, or as whole groups, such as those of one patient or video."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.listing.image_folder import parts_of
from mptctl.data.manifest import BAD, PART_CODES, TEST, TRAIN, VAL, Manifest
from mptctl.data.plan import TEST_FIELD, VALIDATION_FIELD, random_keys
from mptctl.data.split_file import SplitRequest
from mptctl.errors import DataError, UsageError, some
from mptctl.names import OnBad, Source

# Part of each class's training pictures that is held out where nobody says how much. The demo holds out more:
# on a tenth of its pictures the flips of one update can hardly be told from those of another.
VAL_FRACTION, CHARACTERS_VAL_FRACTION = 0.1, 0.2
# Passes over all groups after the first one: each takes in or puts back what brings classes nearer.
_PASSES = 4


def part_held_out(source: Source, root: Path | None, asked: float | None, *, has_own: bool = False) -> float:
    """The part of each class's training pictures that is held out, as asked or by default.

    Args:
        source: of the pictures.
        root: the folder of one in folders.
        asked: by a person; None: nobody.
        has_own: a table or shards have a validation part.

    Raises:
        UsageError: out of range, or the source has a validation part of its own.
    """
    has_own |= source == "imagefolder" and root is not None and VAL in parts_of(root).values()
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
    manifest: Manifest, fraction: float, seed: int, part: int = VAL, field: int = VALIDATION_FIELD
) -> NDArray[np.uint8]:
    """Move a part of each class's training rows to the validation part, or to the test part.

    The choice depends on the seed and each row's index alone, so that a bad file that is kept out changes at
    most one other row.

    Args:
        manifest: with parts TRAIN, TEST and BAD, and perhaps VAL, which stays.
        fraction: part of each class's training rows, from 0 to below 1; rounded to the nearest row.
        seed, field: of the draw.
        part: to which they go.

    Returns:
        (M,) part of each row.
    """
    parts = manifest.parts.copy()
    rows = np.flatnonzero(parts == TRAIN)
    keys = random_keys(seed, 0, rows, field)
    ordered = rows[np.lexsort((keys, manifest.labels[rows]))]
    labels = manifest.labels[ordered]
    starts = np.searchsorted(labels, labels)
    sizes = np.bincount(labels, minlength=len(manifest.class_names))[labels]
    held = np.floor(sizes * fraction + 0.5)
    parts[ordered[np.arange(len(ordered)) - starts < held]] = part
    return parts


def with_test_part(
    manifest: Manifest, fraction: float | None, seed: int, groups: NDArray[np.str_] | None
) -> Manifest:
    """Hold a test part out of a source that has none, by whole groups where there are some.

    Raises:
        UsageError: a fraction out of range, or the source has a test part. DataError: it has none, and none
            is to be held out.
    """
    has_test = bool((manifest.parts == TEST).any())
    if fraction is None:
        if not has_test and not manifest.is_array:
            raise DataError(
                f"{manifest.root}: has no test part; hold one out with --test-fraction 0.2, or name one"
            )
        return manifest
    if has_test:
        raise UsageError(f"--test-fraction {fraction:g}: {manifest.root} has a test part; leave it out")
    if not 0.0 < fraction < 1.0:
        raise UsageError(f"--test-fraction {fraction}: must be above 0 and below 1")
    if groups is None:
        return replace(manifest, parts=hold_out(manifest, fraction, seed, TEST, TEST_FIELD))
    parts = manifest.parts.copy()
    rows = np.flatnonzero(parts == TRAIN)
    parts[rows[hold_out_groups(manifest.labels[rows], groups[rows], fraction, seed, TEST_FIELD)]] = TEST
    return replace(manifest, parts=parts)


def refuse_empty_classes(manifest: Manifest) -> None:
    """Raise DataError where a class has no training picture left; the first such class is named."""
    seen = np.bincount(manifest.labels[manifest.parts == TRAIN], minlength=len(manifest.class_names))
    empty = [manifest.class_names[i] for i in np.flatnonzero(seen == 0)]
    if empty:
        kept_out = int(np.count_nonzero(manifest.parts == BAD))
        raise DataError(
            f"no training picture is left of {len(empty)} classes, {empty[0]} first "
            f"({kept_out} pictures kept out); add pictures or lower --val-fraction"
        )


def hold_out_by_groups(
    manifest: Manifest, groups: NDArray[np.str_], request: SplitRequest, on_bad: OnBad
) -> tuple[NDArray[np.uint8], list[str]]:
    """As `hold_out`, by whole groups; none is in two parts.

    Args:
        manifest: as of `hold_out`.
        groups: (M,) name of each picture's group.
        request: with fraction, seed and the name of the column.
        on_bad: ``quarantine`` keeps pictures of a group that the source itself has in several parts out of
            all but the last of these.

    Returns:
        (M,) part of each row, and a line for each picture that is kept out.

    Raises:
        DataError: the source has a group in several parts, and nothing is to be kept out.
    """
    parts, column = manifest.parts.copy(), str(request.group)
    torn = np.flatnonzero(refuse_torn_groups(parts, groups, column, quarantine=on_bad == "quarantine"))
    parts[torn] = BAD
    rows = np.flatnonzero(parts == TRAIN)
    held = hold_out_groups(
        manifest.labels[rows], groups[rows], request.val_fraction, request.seed, VALIDATION_FIELD
    )
    parts[rows[held]] = VAL
    lines = [f"{manifest.where(row)}: {column} {groups[row]} is in a later part too" for row in torn.tolist()]
    return parts, lines


def hold_out_groups(
    labels: NDArray[np.int32], groups: NDArray[np.str_], fraction: float, seed: int, field: int
) -> NDArray[np.bool_]:
    """Choose whole groups so that each class is held out to about a fraction, and none as a whole.

    Groups are looked at in an order that is drawn, and one is taken where it brings the shares of its classes
    nearer to the fraction, summed over classes. Where each group is of one class, a class ends within half of
    its largest group of what was asked.

    Args:
        labels: (n,) class of each picture.
        groups: (n,) name of its group; a picture without one is a group of its own.
        fraction: of each class, from 0 to below 1.
        seed, field: of the draw, which depends on these and a group's name alone; see `random_keys`.

    Returns:
        (n,) whether a picture is held out.
    """
    if not fraction or not len(labels):
        return np.zeros(len(labels), dtype=np.bool_)
    names, group = np.unique(_without_gaps(groups), return_inverse=True)
    pairs, counts = np.unique(
        group.astype(np.int64) * (int(labels.max()) + 1) + labels, return_counts=True
    )  # a row for each class of each group
    of_pair, label_of_pair = np.divmod(pairs, int(labels.max()) + 1)
    starts = np.searchsorted(of_pair, np.arange(len(names) + 1)).tolist()
    total = np.bincount(labels).astype(np.float64)
    wanted, sizes = (fraction * total).tolist(), total.tolist()
    held = [0.0] * len(sizes)
    taken = np.zeros(len(names), dtype=np.bool_)
    classes, members = label_of_pair.tolist(), counts.tolist()
    order = np.argsort(random_keys(seed, 0, _numbers_of(names), field), kind="stable").tolist()
    for _ in range(1 + _PASSES):
        changed = False
        for each in order:
            sign = -1 if taken[each] else 1
            gain, fits = 0.0, True
            for pair in range(starts[each], starts[each + 1]):
                label = classes[pair]
                after = held[label] + sign * members[pair]
                fits &= after < sizes[label]
                gain += (abs(held[label] - wanted[label]) - abs(after - wanted[label])) / sizes[label]
            if fits and gain > 1e-12:
                changed, taken[each] = True, sign > 0
                for pair in range(starts[each], starts[each + 1]):
                    held[classes[pair]] += sign * members[pair]
        if not changed:
            break
    return taken[group]


def refuse_torn_groups(
    parts: NDArray[np.uint8], groups: NDArray[np.str_], column: str, *, quarantine: bool
) -> NDArray[np.bool_]:
    """Find groups that a source itself has put into several parts.

    Args:
        parts: (n,) TRAIN, VAL, TEST or BAD.
        groups: (n,) name of each picture's group.
        column: what the groups are called.
        quarantine: give back what to keep out, in place of a refusal.

    Returns:
        (n,) pictures of such groups in all parts but the last one that the group is in; all False without
        any.

    Raises:
        DataError: there are such groups, which are named.
    """
    named = _without_gaps(groups)
    _, group = np.unique(named, return_inverse=True)
    used = parts != BAD
    first = np.full(int(group.max(initial=-1)) + 1, BAD, dtype=np.uint8)
    last = np.zeros(len(first), dtype=np.uint8)
    np.minimum.at(first, group[used], parts[used])
    np.maximum.at(last, group[used], parts[used])
    torn = used & (first[group] != last[group])
    if torn.any() and not quarantine:
        words = {code: part for part, code in PART_CODES.items()}
        rows = np.flatnonzero(torn)
        _, one_of_each = np.unique(group[rows], return_index=True)
        names = [
            f"{groups[row]} in {words[int(first[group[row]])]} and {words[int(last[group[row]])]}"
            for row in rows[one_of_each].tolist()
        ]
        raise DataError(
            f"--group {column}: {len(names):,} groups lie in several parts of the source ({some(names)}); "
            "put each into one, or keep the copies in the earlier part out with --on-bad quarantine"
        )
    earlier: NDArray[np.bool_] = torn & (parts != last[group])
    return earlier


def shares_sentence(
    held: NDArray[np.int64], all_rows: NDArray[np.int64], names: Sequence[str], asked: float, column: str
) -> str:
    """Say how near to what was asked a part came that is held out by groups.

    Args:
        held, all_rows: (C,) pictures of each class that are held out, and of those to choose from.
        names: of the classes.
        asked: the fraction.
        column: what the groups are called.
    """
    shares = held / np.maximum(all_rows, 1)
    least, most = int(np.argmin(shares)), int(np.argmax(shares))
    return (
        f"held out by {column}: {100 * held.sum() / max(all_rows.sum(), 1):.1f} % of the training pictures, "
        f"{100 * asked:g} % asked; by class {100 * shares[least]:.1f} % ({names[least]}) to "
        f"{100 * shares[most]:.1f} % ({names[most]})"
    )


def _without_gaps(groups: NDArray[np.str_]) -> NDArray[np.str_]:
    """The same with a name of its own for each picture that has none."""
    if not (empty := np.flatnonzero(groups == "")).size:
        return groups
    named = groups.astype(object)
    named[empty] = [f"\0{row}" for row in empty.tolist()]
    return named.astype(np.str_)


def _numbers_of(names: NDArray[np.str_]) -> NDArray[np.int64]:
    """A number for each name, whichever other names there are."""
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names.tolist()]
    return np.frombuffer(b"".join(digests), dtype=np.int64)
