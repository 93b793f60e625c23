"""What to say of a verb or a flag that is not there: what was probably meant, and where to read more."""

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
    """Say in one line what is wrong with a verb, a flag or a value.

    Args:
        error: what typer found wrong.
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
        message = f"no such flag: {unknown}{_meant_flag(unknown, flags, words)}"
    elif message.startswith("No such command"):
        verb = next((word for word in words if not word.startswith("-") and repr(word) in message), "")
        verbs = context.command.list_commands(context)
        close = difflib.get_close_matches(verb, verbs, n=1, cutoff=0.5)
        message = f"no such command: {verb}" + (f"; did you mean {close[0]}?" if close else "")
    elif value := re.fullmatch(r"Invalid value for '?([^':]+)'?: (.+)", message):
        message = _wrong_value(value[1], value[2], words)
    return f"{message}{'' if message.endswith('?') else ';'} {path_of(context)} --help lists what there is"


def _wrong_value(name: str, said: str, words: Sequence[str]) -> str:
    """``--max-nfr 'abc': must be a number``, in place of what the library says."""
    said = said.removeprefix("Value error, ")
    choice = re.fullmatch(r"'(.*)' is not one of (.+)", said)
    if choice:
        choices = re.findall(r"'([^']+)'", choice[2])
        close = difflib.get_close_matches(choice[1], choices, n=1, cutoff=0.5)
        meant = f"did you mean {close[0]}?" if close else f"choose from {', '.join(choices)}"
        return f"{name}: no such value: {choice[1]!r}; {meant}"
    said = said.partition(", unable to parse")[0].replace("Input should be", "must be")
    given = f" {_last_value_of(name, words)!r}" if name.startswith("--") else ""
    return f"{name}{given}: {said[:1].lower()}{said[1:]}"


def _meant_flag(unknown: str, flags: Sequence[str], words: Sequence[str]) -> str:
    """``; did you mean ...?`` with the flag or the recipe keys, or nothing."""
    if ALSO_CALLED.get(unknown) in flags:
        return f"; did you mean {ALSO_CALLED[unknown]}?"
    if "--set" in flags:
        from mptctl.recipe import keys_called

        keys = keys_called(unknown.lstrip("-").replace("-", "_"))
        if keys:
            value = _guessed_value_of(unknown, words)
            return "; did you mean " + " or ".join(f"--set {key}={value}" for key in keys) + "?"
    close = difflib.get_close_matches(unknown, flags, n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""


def _last_value_of(flag: str, words: Sequence[str]) -> str:
    """The last value given to a flag; it may begin with a minus, as a number does."""
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


def path_of(context: typer.Context) -> str:
    """``mptctl train-mpt``, however the program was started."""
    verbs: list[str] = []
    level: Any = context  # a parent is of a type that typer does not show
    while level.parent is not None:
        verbs.insert(0, level.info_name)
        level = level.parent
    return " ".join(["mptctl", *verbs])
