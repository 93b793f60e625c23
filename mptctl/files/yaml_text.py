"""Reads YAML safely; every value stays text, which the type of its field converts later (see `Typed`).

Messages name lines and kinds of faults, never text of the file: the file may be a link to one that its author
has no right to read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import yaml

from mptctl.errors import UsageError, one_line, visible
from mptctl.files.model import Plain

# Most characters of the parser's message.
MAX_MESSAGE = 200
# Similarity (difflib) from which an unknown key is a misspelt one; `limit` and `limits` have 0.91. Chosen.
MISSPELT = 0.7


def read_yaml(text: str, where: str) -> Any:
    """Parse YAML to mappings, lists and text; text without quotes is `Plain`, and empty YAML is None.

    Args:
        text: YAML.
        where: name of the file in messages.

    Raises:
        UsageError: the text is not YAML, or has a duplicate key, a tag, or an anchor or alias, by which a
            page could expand to gigabytes.
    """
    try:
        node = _compose(text)
        return None if node is None else _TextLoader("").construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message, _, _python_advice = visible(one_line(error)).partition("; use sys.")
        message = re.sub(r"tag handle '.*'", "tag handle", message)
        raise UsageError(f"{where}: {message[:MAX_MESSAGE]}") from error


# A study reads the same preset for each of its runs, and parsing is slow.
@lru_cache(maxsize=64)
def _compose(text: str) -> Any:
    """Parse YAML to its root node; None for empty YAML."""
    return yaml.compose(text, Loader=_TextLoader)


def refuse_unknown_keys(text: str, keys: Collection[str], where: str) -> None:
    """Refuse a mapping with keys that are neither valid nor misspelt valid ones: a file of another kind.

    Args:
        text: YAML of a mapping, which `read_yaml` has read.
        keys: valid keys.
        where: name of the file in messages.

    Raises:
        UsageError: there is such a key; the message names its line, not the key.
    """
    for node, _ in _compose(text).value:
        if node.value not in keys and not difflib.get_close_matches(node.value, keys, 1, MISSPELT):
            raise UsageError(
                f"{where}: line {node.start_mark.line + 1}: unknown key; valid: {', '.join(keys)}"
            )


class _TextLoader(yaml.BaseLoader):  # type: ignore[misc]  # yaml ships no types
    """Loads scalars as text; refuses anchors, tags, duplicate keys, keys other than text, and surrogates."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse anchors, aliases and tags."""
        event = self.peek_event()
        line = event.start_mark.line + 1
        if getattr(event, "anchor", None) is not None:
            raise yaml.YAMLError(f"line {line}: anchors and aliases are not allowed; write the value itself")
        if getattr(event, "tag", None) is not None:
            raise yaml.YAMLError(f"line {line}: a tag, such as !!int, is not allowed; write a plain value")
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> str:
        """Return text, as `Plain` if it has no quotes; refuse half of a surrogate pair."""
        text: str = super().construct_scalar(node)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise yaml.YAMLError(
                f"line {node.start_mark.line + 1}: half of a surrogate pair is no character; write text"
            ) from None
        return text if node.style else Plain(text)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Return a dict with text keys; refuse duplicate keys, and lists or mappings as keys."""
        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.YAMLError(f"line {line}: a key is a list or mapping; write text")
            if key.value in seen:
                raise yaml.YAMLError(f"line {line}: the key of line {seen[key.value]} once more; keep one")
            seen[key.value] = line
        return {str(key): value for key, value in super().construct_mapping(node, deep).items()}
