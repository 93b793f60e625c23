"""The question of a comparison: what its flags and the files that they name say of classes and slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl.cli.evaluate_flags import ComparedFlags
from mptctl.data.further_columns import columns_path
from mptctl.evaluation.pairing.class_map import ClassMap, read_class_map
from mptctl.evaluation.pairing.pairs import ALL, GivenClasses
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.slices.derived_columns import read_superclasses
from mptctl.evaluation.slices.ranking import SliceRequest, slice_columns
from mptctl.files import read_names

if TYPE_CHECKING:
    from mptctl.data.split import Split


@dataclass(frozen=True)
class Question:
    """The classes and slices that a comparison is asked for.

    Attributes:
        old_classes: labels that count as old, or ``all``.
        class_map: classes of other names in old and new.
        slicing: slices, with --metadata alone as the file of their columns.
    """

    old_classes: GivenClasses
    class_map: ClassMap | None
    slicing: SliceRequest

    @property
    def renamed(self) -> frozenset[str]:
        """Old classes that have another name in the new model."""
        return frozenset() if self.class_map is None else frozenset(self.class_map.old)

    def slicing_of(self, models: Mapping[str, Predictions], split: Split | None) -> SliceRequest:
        """The slices of some models: by --metadata, the files of OLD and NEW, or the split's columns."""
        own = [Path(models[role].name) for role in ("old", "new") if models[role].origin == "file"]
        if split is not None:
            kept = columns_path(split.folder, split.file.manifest_fingerprint)
            own += [kept] if kept.is_file() else []
        return replace(self.slicing, files=[*self.slicing.files, *own])


def files_of(flags: ComparedFlags) -> list[Path]:
    """The files that flags name."""
    named = (_old_classes_file(flags), flags.metadata, flags.class_map, flags.superclasses)
    return [path for path in named if path is not None]


def read_question(flags: ComparedFlags) -> Question:
    """Read what the flags say.

    Raises:
        UsageError, DataError: a flag or a file that cannot be used.
    """
    old_file = _old_classes_file(flags)
    old_classes: GivenClasses = None if flags.old_classes is None else ALL
    return Question(
        old_classes=old_classes if old_file is None else read_names(old_file, "--old-classes"),
        class_map=None if flags.class_map is None else read_class_map(flags.class_map),
        slicing=SliceRequest(
            by=slice_columns(flags.by),
            files=[] if flags.metadata is None else [flags.metadata],
            superclasses=None if flags.superclasses is None else read_superclasses(flags.superclasses),
        ),
    )


def _old_classes_file(flags: ComparedFlags) -> Path | None:
    """The file with old classes; None where there is none."""
    return None if flags.old_classes in (None, ALL) else Path(str(flags.old_classes))
