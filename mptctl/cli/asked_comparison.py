"""The classes and slices of a comparison, read from the files that its settings name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mptctl.data.further_columns import columns_path
from mptctl.evaluation.evaluate import ComparisonRequest
from mptctl.evaluation.evaluate_request import ComparedSettings
from mptctl.evaluation.pairing.class_map import read_class_map
from mptctl.evaluation.pairing.pairs import ALL, GivenClasses
from mptctl.evaluation.slices.ranking import MIN_SLICE, SliceRequest, slice_columns
from mptctl.files import read_names
from mptctl.inference.named_models import NamedModels


def read_comparison(asked: ComparedSettings, min_slice: int = MIN_SLICE) -> ComparisonRequest:
    """Read the classes and slices that are asked for, and the files in which they stand.

    Args:
        asked: what is compared.
        min_slice: smaller slices are counted, not ranked.

    Raises:
        UsageError, DataError: a setting or a file that cannot be used.
    """
    old_classes: GivenClasses = None
    if asked.old_classes_file is not None:
        old_classes = read_names(asked.old_classes_file, "--old-classes")
    elif asked.old_classes is not None:
        old_classes = ALL
    return ComparisonRequest(
        old_classes=old_classes,
        class_map=None if asked.class_map is None else read_class_map(asked.class_map),
        slicing=SliceRequest(
            by=slice_columns(asked.by),
            files=[] if asked.metadata is None else [asked.metadata],
            min_slice=min_slice,
        ),
    )


def with_models(asked: ComparisonRequest, loaded: NamedModels) -> ComparisonRequest:
    """The comparison, with what is known of its two models once they are read.

    The columns of slices are looked for in --metadata, then in predictions files of OLD and NEW, then in
    the table of the split's columns.

    Args:
        asked: the comparison before its models are read.
        loaded: predictions of old and new model.
    """
    models = [loaded.models["old"], loaded.models["new"]]
    files = [Path(model.name) for model in models if model.origin == "file"]
    if loaded.split is not None:
        columns_of_split = columns_path(loaded.split.folder, loaded.split.file.manifest_fingerprint)
        if columns_of_split.is_file():
            files.append(columns_of_split)
    slicing = replace(asked.slicing, files=[*asked.slicing.files, *files])
    return replace(
        asked,
        slicing=slicing,
        identical=loaded.identical,
        unfinished=loaded.unfinished,
        warnings=loaded.warnings,
    )
