"""A sentence on why a file does not fit its record: the first fault, and the name that was meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from mptctl.errors import did_you_mean, some

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

# Names that a message holds at most, and characters of a value.
MOST_NAMED, LONGEST = 12, 60
# Said of values of the wrong form, where the library would name classes of this program.
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
    meant: Callable[[str], str] | None = None,
    forms: Mapping[str, str] = {},
) -> str:
    """Computes the sentence on the first thing in a file that does not fit its record.

    Args:
        error: of the record.
        record: that the file was to be.
        meant: the end of the sentence on an unknown key; None: the nearest key of the record that it stands
            in.
        forms: what values of the wrong form must be, by pydantic's kind of error, where examples help.
    """
    problems = error.errors()
    # A key with a slip in it is unknown, and the one that was meant is missing; the former says more.
    problem = next((each for each in problems if each["type"] == "extra_forbidden"), problems[0])
    kind, place = problem["type"], problem["loc"]
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    key = "".join(parts).removeprefix(".") or "file"
    if kind == "extra_forbidden":
        keys = list(_record_at(record, place[:-1]).model_fields)
        return f"unknown key {shown(key)}{meant(key) if meant else nearest(str(place[-1]), keys)}"
    said = str(problem["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        # The sentence names its key, but for one on an item of a list, which does not know its place.
        return f"{key}: {said}" if any(isinstance(part, int) for part in place) else said
    got = problem.get("input")
    if kind == "literal_error" and isinstance(got, str):
        choices = re.findall(r"'([^']+)'", str(problem["ctx"]["expected"]))
        return f"{key}: no such value: {shown_value(got)}{nearest(got, choices)}"
    if kind == "model_type":
        said = f"must be a mapping of keys such as {some(_record_at(record, place).model_fields)}"
    said = (
        {**_FORMS, **forms}.get(kind, said)
        .partition(", unable to parse")[0]
        .replace("Input should be", "must be")
    )
    given = "" if kind in ("missing", "json_invalid") else f", got {shown_value(got)}"
    return f"{key}: {said[:1].lower()}{said[1:]}{given}"


def nearest(name: str, names: Sequence[str], lists: str = "") -> str:
    """The end of a message on an unknown name: the one that was probably meant, or those that there are.

    Args:
        name: that there is not.
        names: that there are.
        lists: the command that lists all of them, where they may be too many for a message.
    """
    meant = did_you_mean(name, names)
    if meant:
        return meant
    how = f"; {lists} lists them" if lists and len(names) > MOST_NAMED else ""
    return f"; valid: {some(names, MOST_NAMED)}{how}"


def shown_value(value: object) -> str:
    """A value of a file as a message may hold it: short."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a number of very many digits"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def shown(name: str, length: int = LONGEST) -> str:
    """A name of a file as a message may hold it: on one line, without terminal escapes, and never long."""
    if not name.isprintable():
        name = ascii(name)[1:-1]
    return name if len(name) <= length else f"{name[: length - 3]}..."


def _record_at(record: type[BaseModel], place: Sequence[int | str]) -> type[BaseModel]:
    """The record at a place of another one; a list stands for its items."""
    for part in place:
        field = record.model_fields.get(str(part))
        if field is not None:
            record = _record_in(field.annotation) or record
    return record


def _record_in(annotation: Any) -> type[BaseModel] | None:
    if hasattr(annotation, "model_fields"):
        found: type[BaseModel] = annotation
        return found
    return next(filter(None, map(_record_in, get_args(annotation))), None)
