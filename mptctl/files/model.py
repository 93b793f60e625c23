"""Base classes of records in files: `Model`, and `Typed` for YAML, which converts text by fields' types."""

from __future__ import annotations

import json
import re
import types
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

# Numbers as in YAML 1.2 (10.3.2, core schema), but without leading zeros, and decimal ones alone: 0x10 is
# more often a name or a slip than 16.
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
NUMBER = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
# Infinity and NaN in YAML and in our JSON, in Python's spelling. A field decides whether it allows them.
NUMBER_WORDS = {
    ".inf": "inf", "-.inf": "-inf", ".nan": "nan", "Infinity": "inf", "-Infinity": "-inf", "inf": "inf",
    "nan": "nan",
}  # fmt: skip
TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
NOTHING = frozenset(("null", "Null", "NULL", "~", ""))
# Most characters of a number; Python reads no integer of over 4,300 digits.
LONGEST = 400


class Model(BaseModel):
    """A record of named fields with descriptions. It is frozen, and unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_dump_json(self, **how: Any) -> str:
        """Return the record as JSON with unprintable characters, such as terminal escapes, as ``\\uNNNN``.

        The first `#` of `##[`, a command to GitHub's runner, is escaped too. Parsing gives the same values.

        Args:
            how: arguments of pydantic's `model_dump_json`.
        """
        text = super().model_dump_json(**how).replace("##[", "\\u0023#[")
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


class Plain(str):
    """Text that has no quotes in its YAML file, so that it may stand for a number, truth value or null."""

    __slots__ = ()


class Typed(Model):
    """A record that converts text by the types of its fields; 2_0, 1:30, yes, 010 and 0x10 are no numbers."""

    @field_validator("*", mode="before")
    @classmethod
    def _convert_by_type(cls, value: object, info: ValidationInfo) -> object:
        """Convert text to the field's type."""
        return read_as(cls.model_fields[str(info.field_name)].annotation, value)


def read_as(kind: Any, value: object) -> object:
    """Convert text, also inside lists and mappings, to a field's type; return other values unchanged.

    Text becomes a number, a truth value or None; for a field of any other type it stays text.

    Args:
        kind: annotation of the field.
        value: text, or lists and mappings of text, from a file; or a value from a program.

    Raises:
        PydanticCustomError: a number is wanted, and the value is other text or a truth value; or a truth
            value is wanted, and the text is neither true nor false.
    """
    kinds = _choices(kind)
    if isinstance(value, Plain) and value in NOTHING and type(None) in kinds:
        return None
    if isinstance(value, str):
        return _read_text(kinds, value)
    if isinstance(value, bool) and bool not in kinds and kinds & {int, float}:
        raise PydanticCustomError("not_bool", "input should not be true or false")
    if Any in kinds and isinstance(value, list):
        return [read_as(Any, item) for item in value]
    if Any in kinds and isinstance(value, dict):
        return {key: read_as(Any, item) for key, item in value.items()}
    for choice in kinds:
        if isinstance(value, list | tuple) and get_origin(choice) in (list, tuple) and get_args(choice):
            item_types = _item_types(choice, len(value))
            return [read_as(item_type, item) for item_type, item in zip(item_types, value, strict=True)]
        if isinstance(value, dict) and get_origin(choice) is dict:
            value_type = get_args(choice)[1]
            return {key: read_as(value_type, item) for key, item in value.items()}
    return value


def _item_types(kind: Any, length: int) -> list[Any]:
    """The type of each of ``length`` items of a list or tuple; the first type for all, if lengths differ."""
    inner = [part for part in get_args(kind) if part is not ...]
    return inner if len(inner) == length else [inner[0]] * length


def is_list(kind: Any) -> bool:
    """Tell whether a type is a list or tuple, or a union with one."""
    return any(get_origin(each) in (list, tuple) for each in _choices(kind))


def is_whole(kind: Any) -> bool:
    """Tell whether a type is an integer, or a union with one and no other number."""
    return int in _choices(kind) and float not in _choices(kind)


def _choices(kind: Any) -> set[Any]:
    """The member types of a union, or the type itself; `Annotated` is removed."""
    if get_origin(kind) is Annotated:
        return _choices(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return set().union(*(_choices(each) for each in get_args(kind)))
    return {kind}


def _read_text(kinds: set[Any], text: str) -> object:
    """Convert text to one of these types; raise PydanticCustomError if it is no value of theirs."""
    if Any in kinds:
        if not isinstance(text, Plain):
            return text
        # As in YAML 1.2: text without quotes is a number, null, a truth value, or else stays `Plain`.
        number = _number_or_none(text)
        if number is not None:
            return number
        return None if text in NOTHING else TRUTH.get(text, text)
    if str in kinds or not kinds & {int, float, bool}:
        return str(text)
    if kinds & {int, float}:
        number = _number_or_none(text)
        if number is None:
            raise PydanticCustomError("number", "must be a valid number")
        return number
    if text not in TRUTH:
        raise PydanticCustomError("truth", "must be true or false")
    return TRUTH[text]


def _number_or_none(text: str) -> int | float | None:
    """Parse a number; None if the text is none."""
    if len(text) > LONGEST:
        return None
    if INTEGER.fullmatch(text):
        return int(text)
    if text in NUMBER_WORDS:
        return float(NUMBER_WORDS[text])
    return float(text) if NUMBER.fullmatch(text) else None
