"""The data of a study: where its pictures lie, and how they are divided."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from mptctl.data.listing.requests import DivisionSettings
from mptctl.data.places import NAMES, Place, find_place
from mptctl.files import read_names
from mptctl.files.explained import nearest
from mptctl.files.model import Typed
from mptctl.names import ColumnRole


class StudySplit(DivisionSettings, Typed):
    """The data of a study and their division, as flags of ``mptctl split``; each seed makes its own split."""

    data_root: str | None = Field(None, description="folder of the data; --data-root overrides it")
    column: dict[ColumnRole, str] = Field({}, description="columns of a table by their roles")
    old_fraction: float = Field(0.5, gt=0, le=1, description="part of the classes that is old")
    old_classes: str | None = Field(None, description="file of the old classes by name, one a line")
    test_fraction: float | None = Field(None, gt=0, lt=1)
    val_fraction: float | None = Field(None, ge=0, lt=1)
    metadata: str | None = Field(None, description="file that has this column, where the source has not")

    @field_validator("source")
    @classmethod
    def _is_a_name_or_a_place(cls, source: str) -> str:
        """Refuse, by ValueError, a word that is neither the name of a source nor a folder."""
        if source not in NAMES and re.fullmatch(r"[\w-]+", source):
            raise ValueError(f"{source!r} is neither a source nor a folder{nearest(source, NAMES)}")
        return source

    @model_validator(mode="after")
    def _says_once_which_classes_are_old(self) -> StudySplit:
        """Refuse, by ValueError, old classes by name and by their number; the default number says nothing."""
        default = StudySplit.model_fields["old_fraction"].default
        if self.old_classes is not None and self.old_fraction != default:
            raise ValueError(
                f"old_classes {self.old_classes} and old_fraction {self.old_fraction:g}: both say which "
                "classes are old; leave one of them out"
            )
        return self

    def find(self, data_root: Path | None = None) -> Place:
        """Find the place of the pictures, as `find_place`; ``data_root`` replaces the study's own."""
        own_root = None if self.data_root is None else Path(self.data_root)
        root = data_root or own_root
        found = find_place(self.source, root, self.kind)
        return found if root is None else replace(found, root=root.expanduser().resolve())

    def request(self, seed: int, data_root: Path | None) -> dict[str, Any]:
        """The arguments of `make_split` that its request keeps; the file of old classes is read.

        Args:
            seed: of the split.
            data_root: as for `find`.
        """
        found = self.find(data_root)
        file = self.old_classes
        same_names = {"old_fraction", "order", "val_fraction", "label_key", "test_fraction", "group"}
        return self.model_dump(include=same_names) | {
            "source": found.source,
            "data_root": found.root,
            "place": found.table_or_shards,
            "columns": dict(self.column),
            "old_names": None if file is None else read_names(Path(file), "split.old_classes"),
            "seed": seed,
        }
