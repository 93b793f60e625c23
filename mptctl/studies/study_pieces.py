"""The pieces of a study's file: its split, its old models, its updates, and what differs in their recipes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from mptctl.files.model import Typed
from mptctl.names import MethodName, Order, Source

# Runs that every seed of a study has, and what else lies beside them: no update may be called so.
OLD, REF, ENSEMBLE = "old", "ref", "ensemble"
TAKEN = (OLD, REF, ENSEMBLE, "cache")


class StudySplit(Typed):
    """Which data, and how they are divided; each seed of the study makes its own split with its own seed."""

    source: Source = Field(description="where the pictures come from")
    data_root: str | None = Field(None, description="folder of the data; --data-root overrides it")
    old_fraction: float = Field(0.5, gt=0, le=1, description="part of the classes that is old")
    class_fraction: float = Field(
        1.0, gt=0, le=1, description="part of the classes that is taken, the old ones among them"
    )
    val_fraction: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="part of each class's training pictures to hold out; default: as mptctl split",
    )
    order: Order = Field("given", description="take the first classes as old, or random ones")


class RecipeChange(Typed):
    """Another recipe, or other values of some of its keys, for the reference, the ensemble and the updates."""

    recipe: str | None = Field(None, description="preset or file; default: the study's")
    set: dict[str, Any] = Field({}, description="recipe keys and their values")


class OldModel(Typed):
    """One of several old models, which differ in their recipes; its run is ``old-NAME``."""

    name: str = Field(description="of its settings")
    set: dict[str, Any] = Field({}, description="recipe keys and their values, such as criterion.name")
    seeds: list[int] | None = Field(None, description="of the study's seeds, those that it has; default: all")

    @field_validator("name")
    @classmethod
    def _is_a_folder(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
            raise ValueError(f"{name!r} names no old model: letters, digits, . _ and -")
        return name

    @property
    def run(self) -> str:
        """Name of its run."""
        return f"{OLD}-{self.name}"


class Update(Typed):
    """One row of the table: a method with its settings. A name alone stands for the method of that name."""

    method: MethodName = Field(description="method")
    name: str = Field("", description="of its runs; default: the method's")
    set: dict[str, Any] = Field({}, description="recipe keys and their values, such as method.k")
    ref: Literal["ref", "ensemble"] = Field("ref", description="the reference, where the method has one")
    old: str = Field("", description="the old model that it learns from, of several; default: the first")
    seeds: list[int] | None = Field(None, description="of the study's seeds, those that it has; default: all")

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, content: object) -> object:
        content = {"method": content} if isinstance(content, str) else content
        if isinstance(content, Mapping) and not content.get("name"):
            return {**content, "name": content.get("method", "")}
        return content

    @field_validator("name")
    @classmethod
    def _is_a_folder(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name) or name in TAKEN or name.startswith(f"{OLD}-"):
            raise ValueError(
                f"{name!r} names no update: letters, digits, . _ and -, none of {', '.join(TAKEN)}, and "
                f"nothing that begins with {OLD}-"
            )
        return name
