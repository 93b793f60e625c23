"""YAML of which every value stays the text that it is written as; what reads a field decides what it is."""

from __future__ import annotations

from typing import Any

import yaml

from mptctl.errors import UsageError, one_line, visible
from mptctl.files.typed import Plain

# Characters of a message that are the parser's.
MOST_SAID = 200


def read_yaml(text: str, where: str) -> Any:
    """Mappings, lists and text; text without quotes is `Plain`.

    Args:
        text: YAML.
        where: what to call it in a message.

    Raises:
        UsageError: it is none, has a key twice, a tag, or an alias, which can blow a page up to gigabytes.
    """
    try:
        return yaml.load(text, Loader=_TextLoader)  # noqa: S506  # makes nothing but text, lists and mappings
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = visible(one_line(error)).partition("; use sys.")[0]  # which is advice to programmers
        raise UsageError(f"{where}: {said[:MOST_SAID]}") from error


class _TextLoader(yaml.BaseLoader):  # type: ignore[misc]  # yaml ships no types
    """An id 00042 is no number, a country `no` is not false. Keys stand once, and all of it is Unicode."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"line {line}: aliases are not allowed")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise yaml.YAMLError(f"line {line}: the tag {tag[:60]} is not allowed; write a plain value")
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
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.YAMLError(
                    f"line {key.start_mark.line + 1}: a key is a list or mapping; write text"
                )
            if key.value in seen:
                raise yaml.YAMLError(
                    f"line {key.start_mark.line + 1}: {key.value} stands there twice; keep one"
                )
            seen.add(key.value)
        return {str(key): value for key, value in super().construct_mapping(node, deep).items()}
