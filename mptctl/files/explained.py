"""Turns pydantic's errors about a file into one sentence, and names of a file into text for messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from mptctl.errors import did_you_mean, some, visible

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

# Most names in a message, and most characters of a value in it.
MOST_NAMED, LONGEST = 12, 60
# Messages by pydantic's kind of error; pydantic's own name classes of this program.
_FORMS = {
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "missing": "is missing",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}


def explain(
    error: ValidationError,
    record: type[BaseModel],
    suggest: Callable[[str], str] | None = None,
    forms: Mapping[str, str] = {},
) -> str:
    """Explain in one sentence why a file does not fit its record: an unknown key, or else the first fault.

    Args:
        error: raised in validation of the file's content.
        record: the record's class.
        suggest: returns the end of a message, given an unknown key; None: suggests the nearest key.
        forms: phrases such as "must be a list" by pydantic's kind of error; they replace the default ones.
    """
    problems = error.errors()
    # A misspelt key is unknown, and its correct form is missing: the unknown key is the clearer message.
    problem = next((each for each in problems if each["type"] == "extra_forbidden"), problems[0])
    kind = problem["type"]
    place = problem["loc"]
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    key = "".join(parts).removeprefix(".") or "file"
    if kind == "extra_forbidden":
        keys = list(_record_at(record, place[:-1]).model_fields)
        return f"unknown key {shown(key)}{suggest(key) if suggest else nearest(str(place[-1]), keys)}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        # Our own messages name their key, but those on an item of a list do not know its place.
        return f"{key}: {message}" if any(isinstance(part, int) for part in place) else message
    got = problem.get("input")
    if kind == "literal_error" and isinstance(got, str):
        choices = re.findall(r"'([^']+)'", str(problem["ctx"]["expected"]))
        return f"{key}: no such value: {shown_value(got)}{nearest(got, choices)}"
    if kind == "model_type":
        message = f"must be a mapping of keys such as {some(_record_at(record, place).model_fields)}"
    message, _, _detail = {**_FORMS, **forms}.get(kind, message).partition(", unable to parse")
    message = message.replace("Input should be", "must be")
    given = "" if kind in ("missing", "json_invalid") else f", got {shown_value(got)}"
    return f"{key}: {message[:1].lower()}{message[1:]}{given}"


def nearest(name: str, names: Sequence[str], lists: str = "") -> str:
    """End of a message on an unknown name: the most similar valid name, or else the first valid names.

    Args:
        name: the unknown name.
        names: the valid names.
        lists: command that lists all valid names; named in the message if there are too many.
    """
    suggestion = did_you_mean(name, names)
    if suggestion:
        return suggestion
    more = f"; {lists} lists them" if lists and len(names) > MOST_NAMED else ""
    return f"; valid: {some(names, MOST_NAMED)}{more}"


def shown_value(value: object) -> str:
    """Format a value of a file for a message, in at most `LONGEST` characters."""
    try:
        text = visible(repr(value))
    except ValueError:  # Python formats no integer of over 4,300 digits
        return "a number of very many digits"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def shown(name: str, length: int = LONGEST) -> str:
    """Format text from a file for a message: on one line, without terminal escapes, of limited length."""
    if not name.isprintable():
        name = ascii(name)[1:-1]
    return name if len(name) <= length else f"{name[: length - 3]}..."


def _record_at(record: type[BaseModel], place: Sequence[int | str]) -> type[BaseModel]:
    """The class of the record at a place in another record; indices of lists are skipped."""
    for part in place:
        field = record.model_fields.get(str(part))
        if field is not None:
            record = _record_in(field.annotation) or record
    return record


def _record_in(annotation: Any) -> type[BaseModel] | None:
    """The first record's class in an annotation such as ``list[Record] | None``; None without one."""
    if hasattr(annotation, "model_fields"):
        record: type[BaseModel] = annotation
        return record
    return next(filter(None, map(_record_in, get_args(annotation))), None)
