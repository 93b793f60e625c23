"""The split of a run that knows classes which its run root's lacks: the same pictures, more names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mptctl.data.classes import ClassSplit, label_map
from mptctl.data.split import Split, load_split
from mptctl.data.split_file import SPLIT_NAME, counts_of, fingerprint_of, manifest_name, parse_split_file
from mptctl.errors import UsageError


def extend_split(split: Split, known: Sequence[str], added: Sequence[str]) -> Split:
    """The split with further class names, of which it has no picture; nothing is written.

    Args:
        split: stays as it is.
        known: classes that count as old.
        added: classes that come next; those that the split has keep their pictures.
    """
    strangers = [name for name in added if name not in set(split.classes.names)]
    manifest = replace(split.manifest, class_names=(*split.manifest.class_names, *strangers))
    first = (*known, *added)
    names = (*first, *(name for name in split.classes.names if name not in set(first)))
    file = split.file.model_copy(
        update={
            "class_names": list(names),
            "num_old": len(known),
            "counts": counts_of(manifest, names),
            "manifest": manifest_name(manifest),
            "manifest_fingerprint": manifest.fingerprint,
            "fingerprint": fingerprint_of(manifest, names, len(known)),
            "extends": split.fingerprint,
        }
    )
    # Labels of -1, of classes that are not taken, find the last place.
    moved = np.append(label_map(split.classes.names, names), -1)
    labels = moved[split.labels]
    return Split(file, manifest, ClassSplit(names, len(known)), labels, file.fingerprint, split.run_root)


def own_split(paths: Iterable[Path], run_root: Path) -> Split | None:
    """The split of its own that a run folder of some checkpoints has; None where all share the run root's.

    Args:
        paths: of checkpoints.
        run_root: where decoded pictures are kept.

    Raises:
        UsageError: two of them have different ones.
        DataError: it is damaged.
    """
    found: dict[str, Split] = {}
    for folder in dict.fromkeys(path.resolve().parent for path in paths):
        file = folder / SPLIT_NAME
        # Run folders hold a copy of the run root's split; only beside a split of its own lies its manifest.
        if not file.is_file() or not (folder / "environment.json").is_file():
            continue
        if (folder / parse_split_file(file.read_bytes(), file).manifest).is_file():
            split = replace(load_split(folder), run_root=run_root)
            found[split.fingerprint] = split
    if len(found) > 1:
        raise UsageError(
            f"{', '.join(map(str, paths))}: have different splits of their own; "
            "compare each with the run that it was made from"
        )
    return next(iter(found.values()), None)
