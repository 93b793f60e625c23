"""The presets and studies that have names: a list with one line each, and the content of one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from mptctl.errors import UsageError
from mptctl.files import Model
from mptctl.files.explained import nearest
from mptctl.recipe import load_recipe, preset_names
from mptctl.recipe.own import KEYS, Own, find_own, own_names
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
    return [entry.model_copy(update={"content": None}) for entry in _entries()]


def find_in_catalog(name: str) -> list[CatalogEntry]:
    """Find the preset, the study, or both of a name, with their content.

    Raises:
        UsageError: there is neither; the message suggests the nearest name.
    """
    entries = list(_entries(name))
    if not entries:
        names = sorted({entry.name for entry in _entries()})
        raise UsageError(f"{name}: no such preset or study{nearest(name, names, LIST_COMMAND)}")
    return entries


def _entries(wanted: str | None = None) -> Iterator[CatalogEntry]:
    """The entries with their content, all or those of one name."""
    yield from (_preset_entry(name) for name in preset_names() if wanted in (None, name))
    yield from (_study_entry(name) for name in study_names() if wanted in (None, name))
    for kind in KEYS:
        found = [find_own(kind, name) for name in own_names(kind) if wanted in (None, name)]
        yield from (_own_entry(own) for own in found if own is not None)


def _own_entry(own: Own) -> CatalogEntry:
    """The entry of a method, criterion or network of one's own, with each setting's default and text."""
    settings = {}
    for key, field in own.settings.model_fields.items():
        default = "required" if field.is_required() else field.get_default(call_default_factory=True)
        settings[key] = {"default": default, "description": field.description or ""}
    return CatalogEntry(
        name=own.name,
        kind=own.kind,
        description=next(iter((own.function.__doc__ or "").strip().splitlines()), f"in {own.file}"),
        content={"settings": settings},
    )


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
