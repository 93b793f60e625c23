"""The classes and slices of a comparison, read from the files that its settings name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl.data.further_columns import columns_path
from mptctl.evaluation.evaluate_request import ComparedSettings
from mptctl.evaluation.pairing.class_map import ClassMap, read_class_map
from mptctl.evaluation.pairing.pairs import ALL, GivenClasses
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.slices.ranking import MIN_SLICE, SliceRequest, slice_columns
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


def read_question(asked: ComparedSettings, min_slice: int = MIN_SLICE) -> Question:
    """Read the classes and slices that are asked for, and the files in which they stand.

    Args:
        asked: what is compared.
        min_slice: smaller slices are counted, not ranked.

    Raises:
        UsageError, DataError: a setting or a file that cannot be used.
    """
    file = asked.old_classes_file
    old_classes: GivenClasses = None if asked.old_classes is None else ALL
    return Question(
        old_classes=old_classes if file is None else read_names(file, "--old-classes"),
        class_map=None if asked.class_map is None else read_class_map(asked.class_map),
        slicing=SliceRequest(
            by=slice_columns(asked.by),
            files=[] if asked.metadata is None else [asked.metadata],
            min_slice=min_slice,
        ),
    )
