"""Messages on a wrong command, flag or value: what was probably meant, and where to read more."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import typer

# What other programs call some of our flags.
ALSO_CALLED = {
    "--config": "--recipe",
    "--data": "--data-root",
    "--force": "--overwrite",
    "--html": "--report",
    "--out-dir": "--run-root",
    "--output-dir": "--run-root",
    "--reference": "--ref",
    "--teacher": "--old",
}


def explain(error: typer.TyperException, words: Sequence[str]) -> str:
    """Return the message, on one line, on a wrong command, flag or value.

    Args:
        error: raised by typer.
        words: of the command line, without the program.
    """
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None:
        return f"{message}; mptctl --help lists what there is"
    # Errors of known flags have an `option_name` too, but no context.
    unknown = getattr(error, "option_name", None)
    if unknown is not None:
        flags = [flag for each in context.command.params for flag in each.opts if flag.startswith("--")]
        message = f"no such flag: {unknown}{_suggested_flag(unknown, flags, words)}"
    elif message.startswith("No such command"):
        command = next((word for word in words if not word.startswith("-") and repr(word) in message), "")
        commands = context.command.list_commands(context)
        close = difflib.get_close_matches(command, commands, n=1, cutoff=0.5)
        message = f"no such command: {command}" + (f"; did you mean {close[0]}?" if close else "")
    else:
        wrong_value = re.fullmatch(r"Invalid value for '?([^':]+)'?: (.+)", message)
        if wrong_value is not None:
            message = _explain_value(wrong_value[1], wrong_value[2], words)
    return (
        f"{message}{'' if message.endswith('?') else ';'} {command_path(context)} --help lists what there is"
    )


def _explain_value(name: str, reason: str, words: Sequence[str]) -> str:
    """Return a message on a wrong value, such as ``--max-nfr 'abc': must be a number``.

    Args:
        name: of the flag or argument.
        reason: of typer, in its words, which this message rephrases.
        words: of the command line.
    """
    reason = reason.removeprefix("Value error, ")
    choice = re.fullmatch(r"'(.*)' is not one of (.+)", reason)
    if choice:
        choices = re.findall(r"'([^']+)'", choice[2])
        close = difflib.get_close_matches(choice[1], choices, n=1, cutoff=0.5)
        meant = f"did you mean {close[0]}?" if close else f"choose from {', '.join(choices)}"
        return f"{name}: no such value: {choice[1]!r}; {meant}"
    reason = reason.partition(", unable to parse")[0].replace("Input should be", "must be")
    given = f" {_last_value_of(name, words)!r}" if name.startswith("--") else ""
    return f"{name}{given}: {reason[:1].lower()}{reason[1:]}"


def _suggested_flag(unknown: str, flags: Sequence[str], words: Sequence[str]) -> str:
    """The end of a message, ``; did you mean ...?``; empty where no flag or recipe key is near.

    Args:
        unknown: the flag that was given.
        flags: of the command.
        words: of the command line, for the value that a suggested ``--set KEY=VALUE`` has.
    """
    if ALSO_CALLED.get(unknown) in flags:
        return f"; did you mean {ALSO_CALLED[unknown]}?"
    if "--set" in flags:
        from mptctl.recipe import find_keys_by_name

        keys = find_keys_by_name(unknown.lstrip("-").replace("-", "_"))
        if keys:
            value = _guessed_value_of(unknown, words)
            return "; did you mean " + " or ".join(f"--set {key}={value}" for key in keys) + "?"
    close = difflib.get_close_matches(unknown, flags, n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""


def _last_value_of(flag: str, words: Sequence[str]) -> str:
    """The last value given to a flag, or VALUE without one; it may begin with a minus, as a number does."""
    given = [
        after if word == flag else word.partition("=")[2]
        for word, after in zip(words, [*words[1:], ""], strict=True)
        if word == flag or word.startswith(f"{flag}=")
    ]
    return given[-1] if given else "VALUE"


def _guessed_value_of(flag: str, words: Sequence[str]) -> str:
    """The first value after an unknown flag, unless it begins with a minus; else the placeholder VALUE."""
    for word, after in zip(words, [*words[1:], "-"], strict=True):
        if word == flag and not after.startswith("-"):
            return after
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return "VALUE"


def command_path(context: typer.Context) -> str:
    """The words of a command, such as ``mptctl bench step``, however the program was started."""
    verbs: list[str] = []
    level: Any = context  # a parent is of a type that typer does not show
    while level.parent is not None:
        verbs.insert(0, level.info_name)
        level = level.parent
    return " ".join(["mptctl", *verbs])
