"""Records of files: `Model`, and `Typed` for files that people write, whose types decide how text is read."""

from __future__ import annotations

import json
import re
import types
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

# Numbers as YAML 1.2 has them (10.3.2, core schema), but for zeros before another digit.
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+", re.ASCII)
NUMBER = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
# Infinity and what is no number, in YAML and in JSON of ours; whether a field takes them is the field's to
# say.
WORDS = {
    ".inf": "inf", "-.inf": "-inf", ".nan": "nan", "Infinity": "inf", "-Infinity": "-inf", "inf": "inf",
    "nan": "nan",
}  # fmt: skip
TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
NOTHING = frozenset(("null", "Null", "NULL", "~", ""))
# Characters of a number: Python reads no integer of more than 4,300.
LONGEST = 400


class Model(BaseModel):
    """A record of named fields, each with a description; it is frozen, and an unknown field is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_dump_json(self, **how: Any) -> str:
        """Pydantic's JSON, with unprintable characters, which a terminal might obey, escaped as ``\\uNNNN``.

        The first `#` of `##[`, a command to GitHub's runner, is escaped too. Parsing gives the same values.
        """
        text = super().model_dump_json(**how).replace("##[", "\\u0023#[")
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


class Plain(str):
    """Text of a file that stands there without quotes."""

    __slots__ = ()


class Typed(Model):
    """A record whose fields are read by their types: in a number 2_0, 1:30, yes and 010 are refused."""

    @field_validator("*", mode="before")
    @classmethod
    def _by_its_type(cls, value: object, info: ValidationInfo) -> object:
        return read_as(cls.model_fields[str(info.field_name)].annotation, value)


def read_as(kind: Any, value: object) -> object:
    """Convert text to a type, also inside lists and mappings; other values are returned unchanged.

    Text for a type that is neither a number nor a truth value stays text.

    Args:
        kind: annotation of a field.
        value: text, or lists and mappings of text, of a file; or what a program gives.

    Raises:
        PydanticCustomError: for a number, text that is none, or a truth value; for a truth value, text that
            is neither true nor false.
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
    for each in kinds:
        if isinstance(value, list | tuple) and get_origin(each) in (list, tuple) and get_args(each):
            item_types = _item_types(each, len(value))
            return [read_as(item_type, item) for item_type, item in zip(item_types, value, strict=True)]
        if isinstance(value, dict) and get_origin(each) is dict:
            return {key: read_as(get_args(each)[1], item) for key, item in value.items()}
    return value


def _item_types(kind: Any, length: int) -> list[Any]:
    """The type of each item of a list or tuple; that of the first for all, where it has another length."""
    inner = [part for part in get_args(kind) if part is not ...]
    return inner if len(inner) == length else [inner[0]] * length


def is_list(kind: Any) -> bool:
    """Tell whether values of a type, which may allow None too, are lists."""
    return any(get_origin(each) in (list, tuple) for each in _choices(kind))


def _choices(kind: Any) -> set[Any]:
    """The member types of a union, or the one type that is no union, without their `Annotated` limits."""
    if get_origin(kind) is Annotated:
        return _choices(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return set().union(*(_choices(each) for each in get_args(kind)))
    return {kind}


def _read_text(kinds: set[Any], text: str) -> object:
    """Text as a value of one of these types; PydanticCustomError where it is none."""
    if Any in kinds:
        if not isinstance(text, Plain):
            return text
        # As YAML 1.2 takes text without quotes; what is none of these stays `Plain`.
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
    if len(text) > LONGEST:
        return None
    if INTEGER.fullmatch(text):
        return int(text, 0)
    return float(WORDS.get(text, text)) if text in WORDS or NUMBER.fullmatch(text) else None
