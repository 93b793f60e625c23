"""The classes and slices of a comparison, read from its flags and the files that they name."""

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
from mptctl.evaluation.slices.ranking import SliceRequest, slice_columns
from mptctl.files import read_names

if TYPE_CHECKING:
    from mptctl.data.split import Split


@dataclass(frozen=True)
class Question:
    """The classes and slices that a comparison is asked for.

    Attributes:
        old_classes: labels that count as old, or ``all``.
        class_map: classes that old and new model call by different names.
        slicing: slices; of the files with their columns only --metadata.
    """

    old_classes: GivenClasses
    class_map: ClassMap | None
    slicing: SliceRequest

    @property
    def renamed(self) -> frozenset[str]:
        """Classes of the old model that `class_map` renames, merges or splits; none without a map."""
        return frozenset() if self.class_map is None else frozenset(self.class_map.old)

    def slicing_for(self, models: Mapping[str, Predictions], split: Split | None) -> SliceRequest:
        """The slices, with all files in which their columns are looked for.

        These are --metadata, then predictions files of OLD and NEW, then the table of the split's columns.

        Args:
            models: the predictions by role; ``old`` and ``new`` are needed.
            split: of the models; None for files of predictions.
        """
        files = [Path(models[role].name) for role in ("old", "new") if models[role].origin == "file"]
        if split is not None:
            columns_of_split = columns_path(split.folder, split.file.manifest_fingerprint)
            files += [columns_of_split] if columns_of_split.is_file() else []
        return replace(self.slicing, files=[*self.slicing.files, *files])


def files_named_by(flags: ComparedFlags) -> list[Path]:
    """The files that the flags of a comparison name."""
    named = (_old_classes_file(flags), flags.metadata, flags.class_map)
    return [path for path in named if path is not None]


def read_question(flags: ComparedFlags) -> Question:
    """Read the classes and slices that flags name, and the files in which they stand.

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
        ),
    )


def _old_classes_file(flags: ComparedFlags) -> Path | None:
    """The file with old classes; None where --old-classes is not given, or is ``all``."""
    return None if flags.old_classes in (None, ALL) else Path(str(flags.old_classes))
