"""The presets and studies that have names: a list with one line each, and the content of one of them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from mptctl.errors import UsageError
from mptctl.files import Model
from mptctl.files.explained import nearest
from mptctl.recipe import load_recipe, preset_names
from mptctl.recipe.own import KEYS, find_own, own_names
from mptctl.recipe.reading import LIST_COMMAND, preset_folder
from mptctl.studies.study_file import load_study, study_names


class CatalogEntry(Model):
    """A preset, a study, or a method, criterion or network of one's own."""

    name: str = Field(
        description="what --recipe, mptctl study or the recipe takes; a preset and a study may share one"
    )
    kind: Literal["preset", "study", "method", "criterion", "network"] = Field(
        description="of a run, or of a table of runs; or what of one's own a plugin brings"
    )
    description: str = Field(description="in one line")
    content: dict[str, Any] | None = Field(
        description="all keys with their values, defaults too; null where no NAME was given"
    )


class Catalog(Model):
    """The object that `recipes` prints with ``--json``."""

    recipes: list[CatalogEntry] = Field(
        description="presets, then studies, then one's own; with NAME those of that name"
    )


def catalog() -> list[CatalogEntry]:
    """List every preset and every study, without their content.

    Raises:
        UsageError: a study is not valid.
    """
    entries = [*map(_preset_entry, preset_names()), *map(_study_entry, study_names()), *_own_entries()]
    return [entry.model_copy(update={"content": None}) for entry in entries]


def find_in_catalog(name: str) -> list[CatalogEntry]:
    """Find the preset, the study, or both of a name, with their content.

    Raises:
        UsageError: there is neither; the message suggests the nearest name.
    """
    presets, studies = preset_names(), study_names()
    entries = [entry for entry in _own_entries() if entry.name == name]
    if name not in presets and name not in studies and not entries:
        names = sorted({*presets, *studies, *(entry.name for entry in _own_entries())})
        raise UsageError(f"{name}: no such preset or study{nearest(name, names, LIST_COMMAND)}")
    if name in presets:
        entries.append(_preset_entry(name))
    if name in studies:
        entries.append(_study_entry(name))
    return entries


def _own_entries() -> list[CatalogEntry]:
    """The methods, criteria and networks of one's own, with each setting's default and description."""
    found = [find_own(kind, name) for kind in KEYS for name in own_names(kind)]
    return [
        CatalogEntry(
            name=own.name,
            kind=own.kind,
            description=(own.function.__doc__ or f"in {own.file}").strip().splitlines()[0],
            content={
                "settings": {
                    key: {
                        "default": "required"
                        if field.is_required()
                        else field.get_default(call_default_factory=True),
                        "description": field.description or "",
                    }
                    for key, field in own.settings.model_fields.items()
                }
            },
        )
        for own in found
        if own is not None
    ]


def _preset_entry(name: str) -> CatalogEntry:
    """The entry of a preset; its description is the comment in the first line of its file."""
    with open(preset_folder() / f"{name}.yaml", encoding="utf-8") as file:
        description = file.readline().removeprefix("#").strip()
    content = load_recipe(name).model_dump(mode="json")
    return CatalogEntry(name=name, kind="preset", description=description, content=content)


def _study_entry(name: str) -> CatalogEntry:
    file = load_study(name).file
    return CatalogEntry(
        name=name, kind="study", description=file.description, content=file.model_dump(mode="json")
    )
