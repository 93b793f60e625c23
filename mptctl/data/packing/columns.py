"""Columns of a table with pictures inside: which one holds the pictures, and which one their labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from mptctl.errors import DataError, UsageError, did_you_mean, some

if TYPE_CHECKING:
    import pyarrow as pa

# What a column of a table can be: `--column label=fine_label`.
Role = Literal["image", "label", "split", "id"]
ROLES: tuple[str, ...] = (*get_args(Role), "path")
# What Hugging Face calls the kinds of column that are looked for by kind.
_FEATURES: dict[str, str] = {"image": "Image", "label": "ClassLabel"}
# Arrow's types of encoded pictures; null where every row names a file.
_BYTES = ("binary", "large_binary", "binary_view", "null")


@dataclass(frozen=True)
class PictureColumns:
    """Names of the columns of a table with pictures inside.

    Attributes:
        image, label: always there.
        split, id: None where there is none.
        class_names: of labels that are numbers, by the file's metadata; empty without such.
        further: all others that can be kept as text or numbers.
        left_out: all others.
        has_paths: whether ``image`` is a struct that also has the picture's path.
    """

    image: str
    label: str
    split: str | None
    id: str | None
    class_names: tuple[str, ...]
    further: tuple[str, ...]
    left_out: tuple[str, ...]
    has_paths: bool


def find_columns(
    schema: pa.Schema, features: Mapping[str, Any], named: Mapping[str, str], where: str
) -> PictureColumns:
    """Tell the columns of a table apart.

    Args:
        schema: of the table.
        features: Hugging Face's description of its columns; empty without such.
        named: column of a `Role` that a person named.
        where: the file, for messages.

    Raises:
        UsageError: a named column is not there.
        DataError: no column of pictures or of labels, or several.
    """
    for role, name in named.items():
        if name not in schema.names:
            raise UsageError(
                f"--column {role}={name}: {where} has {some(schema.names, 8)}"
                f"{did_you_mean(name, schema.names)}"
            )
    image, label = (_find(role, schema, features, named, where) for role in ("image", "label"))
    has_paths = _check_image(schema.field(image), where)
    split, row_id = (named.get(role, role if role in schema.names else None) for role in ("split", "id"))
    others = [name for name in schema.names if name not in (image, label, split, row_id)]
    left_out = tuple(name for name in others if "binary" in str(schema.field(name).type))
    return PictureColumns(
        image=image,
        label=label,
        split=split,
        id=row_id,
        class_names=tuple(features.get(label, {}).get("names", ())),
        further=tuple(name for name in others if name not in left_out),
        left_out=left_out,
        has_paths=has_paths,
    )


def read_features(schema: pa.Schema) -> dict[str, Any]:
    """Hugging Face's description of a table's columns, from its metadata; empty where it has none."""
    try:
        return dict(json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"])
    except (KeyError, ValueError, TypeError):
        return {}


def _find(
    role: str, schema: pa.Schema, features: Mapping[str, Any], named: Mapping[str, str], where: str
) -> str:
    """The column that is named, else the one of the role's name, else the only one of the role's kind."""
    names: list[str] = schema.names
    if role in named:
        return named[role]
    if role in names:
        return role
    fitting = [
        name
        for name in names
        if isinstance(features.get(name), dict) and features[name].get("_type") == _FEATURES[role]
    ]
    if len(fitting) == 1:
        return fitting[0]
    there = f"several columns could be it: {some(fitting)}" if fitting else f"it has {some(schema.names, 8)}"
    raise DataError(f"{where}: no column {role}; {there}; name it with --column {role}=NAME")


def _check_image(field: pa.Field, where: str) -> bool:
    """Tell whether a column of pictures has their paths too.

    Raises:
        DataError: it holds no pictures.
    """
    kind = field.type
    if str(kind) in _BYTES:
        return False
    names: list[str] = [kind.field(i).name for i in range(kind.num_fields)]
    if "bytes" in names and str(kind.field("bytes").type) in _BYTES:
        return "path" in names
    raise DataError(
        f"{where}: column {field.name} is {kind}, not the bytes of pictures, or a struct with them; "
        "name another with --column image=NAME"
    )
