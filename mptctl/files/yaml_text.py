"""YAML of which every value stays the text that it is written as; what reads a field decides what it is.

Messages say where something is and what kind of thing, never its text: a file that comes from elsewhere may
be a link to one that its author may not read.
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

# Characters of a message that are the parser's.
MOST_SAID = 200
# Chosen: how alike an unknown key is to a known one where it is a slip (`limit` for `limits` is 0.91).
A_SLIP = 0.7


def read_yaml(text: str, where: str) -> Any:
    """Mappings, lists and text; text without quotes is `Plain`.

    Args:
        text: YAML.
        where: what to call it in a message.

    Raises:
        UsageError: it is none, has a key twice, a tag, or an anchor or alias, which can blow a page up to
            gigabytes.
    """
    try:
        node = _composed(text)
        return None if node is None else _TextLoader("").construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = visible(one_line(error)).partition("; use sys.")[0]  # which is advice to programmers
        said = re.sub(r"tag handle '.*'", "tag handle", said)
        raise UsageError(f"{where}: {said[:MOST_SAID]}") from error


# A study names one preset for each of its runs; the parser is the slow part.
@lru_cache(maxsize=64)
def _composed(text: str) -> Any:
    """The node of a text; None of an empty one."""
    return yaml.compose(text, Loader=_TextLoader)


def refuse_unknown_keys(text: str, keys: Collection[str], where: str) -> None:
    """Refuse a file that is of another kind, without its text.

    Args:
        text: YAML of a mapping, which `read_yaml` has read.
        keys: that a file of this kind has.
        where: what to call it in a message.

    Raises:
        UsageError: it has a key that is none of these, and no slip in one of them; with its line.
    """
    for node, _ in _composed(text).value:
        if node.value not in keys and not difflib.get_close_matches(node.value, keys, 1, A_SLIP):
            line = node.start_mark.line + 1
            raise UsageError(f"{where}: line {line}: unknown key; valid: {', '.join(keys)}")


class _TextLoader(yaml.BaseLoader):  # type: ignore[misc]  # yaml ships no types
    """An id 00042 is no number, a country `no` is not false. Keys stand once, and all of it is Unicode."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        line = event.start_mark.line + 1
        if getattr(event, "anchor", None) is not None:
            raise yaml.YAMLError(f"line {line}: anchors and aliases are not allowed; write the value itself")
        if getattr(event, "tag", None) is not None:
            raise yaml.YAMLError(f"line {line}: a tag, such as !!int, is not allowed; write a plain value")
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> str:
        text: str = super().construct_scalar(node)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise yaml.YAMLError(
                f"line {node.start_mark.line + 1}: half of a surrogate pair is no character; write text"
            ) from None
        return text if node.style else Plain(text)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.YAMLError(f"line {line}: a key is a list or mapping; write text")
            if key.value in seen:
                raise yaml.YAMLError(f"line {line}: the key of line {seen[key.value]} once more; keep one")
            seen[key.value] = line
        return {str(key): value for key, value in super().construct_mapping(node, deep).items()}
