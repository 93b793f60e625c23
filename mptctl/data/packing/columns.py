"""Finds the columns of pictures, labels, parts and ids in a table with pictures inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from mptctl.data.listing.table import find_role_columns
from mptctl.errors import DataError, some

if TYPE_CHECKING:
    import pyarrow as pa

# The roles of columns; `--column label=fine_label` names the column of a role.
Role = Literal["image", "label", "split", "id"]
ROLES: tuple[str, ...] = (*get_args(Role), "path")
# Hugging Face's name for the type of the column of a role.
_FEATURES: dict[str, str] = {"image": "Image", "label": "ClassLabel"}
# Arrow's types of columns of encoded pictures; null where every row names a file instead.
_BYTES = ("binary", "large_binary", "binary_view", "null")


@dataclass(frozen=True)
class PictureColumns:
    """Names of the columns of a table with pictures inside.

    Attributes:
        image, label: columns of the pictures and of their labels.
        split, id: columns of the parts and of the ids; None where there is no such column.
        class_names: names of the classes where the file's metadata have them; labels are then numbers.
        further: columns without a role that are kept.
        left_out: columns without a role that hold bytes, and are not kept.
        has_paths: True where ``image`` is a struct that also has the path of the picture.
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
    """Find the columns of a table that have a role.

    Args:
        schema: schema of the table.
        features: Hugging Face's description of the columns; empty without one.
        named: column names that ``--column`` gives, by `Role`.
        where: the file, for messages.

    Raises:
        UsageError: ``named`` names a column that does not exist.
        DataError: pictures or labels have no column, or several; or the column of pictures holds none.
    """
    named = find_role_columns(named, schema.names, where, needed=(), roles=get_args(Role))
    image, label = (_find_column(role, schema, features, named, where) for role in ("image", "label"))
    has_paths = _check_picture_column(schema.field(image), where)
    split, row_id = named.get("split"), named.get("id")
    without_role = [name for name in schema.names if name not in (image, label, split, row_id)]
    left_out = tuple(name for name in without_role if "binary" in str(schema.field(name).type))
    return PictureColumns(
        image=image,
        label=label,
        split=split,
        id=row_id,
        class_names=tuple(features.get(label, {}).get("names", ())),
        further=tuple(name for name in without_role if name not in left_out),
        left_out=left_out,
        has_paths=has_paths,
    )


def read_features(schema: pa.Schema) -> dict[str, Any]:
    """Read Hugging Face's description of a table's columns from its metadata; {} where it has none."""
    try:
        return dict(json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"])
    except (KeyError, ValueError, TypeError):
        return {}


def _find_column(
    role: str, schema: pa.Schema, features: Mapping[str, Any], named: Mapping[str, str], where: str
) -> str:
    """Find the column of ``image`` or ``label``: that in ``named``, else the only one whose feature fits.

    Raises:
        DataError: none of these exists.
    """
    names: list[str] = schema.names
    if role in named:
        return named[role]
    described = [name for name in names if isinstance(features.get(name), dict)]
    fitting = [name for name in described if features[name].get("_type") == _FEATURES[role]]
    if len(fitting) == 1:
        return fitting[0]
    choice = f"several columns could be it: {some(fitting)}" if fitting else f"it has {some(names, 8)}"
    raise DataError(f"{where}: no column {role}; {choice}; name it with --column {role}=NAME")


def _check_picture_column(field: pa.Field, where: str) -> bool:
    """Check that a column holds encoded pictures, and tell whether it also holds their paths.

    Raises:
        DataError: the column is neither of bytes nor of structs with bytes.
    """
    column_type = field.type
    if str(column_type) in _BYTES:
        return False
    names: list[str] = [column_type.field(index).name for index in range(column_type.num_fields)]
    if "bytes" in names and str(column_type.field("bytes").type) in _BYTES:
        return "path" in names
    raise DataError(
        f"{where}: column {field.name} is {column_type}, not the bytes of pictures, or a struct with them; "
        "name another with --column image=NAME"
    )
