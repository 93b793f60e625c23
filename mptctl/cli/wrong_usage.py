"""Messages on a wrong command, flag or value: what was probably meant, and where to read more."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import typer


def explain(error: typer.TyperException, words: Sequence[str]) -> str:
    """Return the message, on one line, on a wrong command, flag or value.

    Args:
        error: raised by typer, whose own text is kept where it is not about a flag or its value.
        words: of the command line, without the program.
    """
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None:
        return f"{message}; mptctl --help lists what there is"
    # Errors of known flags have an `option_name` too, but no context.
    unknown = getattr(error, "option_name", None)
    wrong_value = re.fullmatch(r"Invalid value for '?([^':]+)'?: (.+)", message)
    if unknown is not None:
        flags = [name for flag in context.command.params for name in flag.opts if name.startswith("--")]
        meant = _suggested_keys(unknown, words) if "--set" in flags else []
        meant = meant or difflib.get_close_matches(unknown, flags, n=1, cutoff=0.7)
        message = f"no such flag: {unknown}"
        if meant:
            message += f"; did you mean {' or '.join(meant)}?"
    elif wrong_value is not None:
        name, reason = wrong_value.groups()
        reason = reason.removeprefix("Value error, ").partition(", unable to parse")[0]
        reason = reason.replace("Input should be", "must be")
        if name.startswith("--") and reason.startswith("must"):
            name = f"{name} {_value_of(name, words)!r}"
        message = f"{name}: {reason}"
    end = "" if message.endswith("?") else ";"
    return f"{message}{end} {command_path(context)} --help lists what there is"


def _suggested_keys(unknown: str, words: Sequence[str]) -> list[str]:
    """The recipe keys that an unknown flag may stand for, as ``--set KEY=VALUE``; empty if none is near."""
    from mptctl.recipe import find_keys_by_name

    keys = find_keys_by_name(unknown.lstrip("-").replace("-", "_"))
    return [f"--set {key}={_value_of(unknown, words)}" for key in keys]


def _value_of(flag: str, words: Sequence[str]) -> str:
    """The last value given to a flag, or VALUE without one; it may begin with a minus, as a number does."""
    given = [
        after if word == flag else word.partition("=")[2]
        for word, after in zip(words, [*words[1:], "--"], strict=True)
        if word == flag or word.startswith(f"{flag}=")
    ]
    return given[-1] if given and not given[-1].startswith("--") else "VALUE"


def command_path(context: typer.Context) -> str:
    """The words of a command, such as ``mptctl bench step``, however the program was started."""
    verbs: list[str] = []
    level: Any = context  # a parent is of a type that typer does not show
    while level.parent is not None:
        verbs.insert(0, level.info_name)
        level = level.parent
    return " ".join(["mptctl", *verbs])
