"""YAML of which every value stays the text that it is written as."""

from __future__ import annotations

from typing import Any

import yaml

from mptctl.errors import UsageError, one_line
from mptctl.evaluation.columns import shown


def read_plain_yaml(text: str, name: str) -> Any:
    """Mappings, lists and text.

    Args:
        text: YAML. name: of the file, for messages.

    Raises:
        UsageError: it is none, has a key twice, or an alias, which can blow a page up to gigabytes.
    """
    try:
        return yaml.load(text, Loader=_PlainLoader)  # noqa: S506  # a kind of SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{name}: {shown(one_line(error), 200)}") from error


class _PlainLoader(yaml.BaseLoader):  # type: ignore[misc]  # yaml ships no types
    """Every value as it is written: an id 00042 is no number, a country `no` is not false. Keys stand once, and all of
    it is Unicode, as whatever reads it expects."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError(f"line {self.peek_event().start_mark.line + 1}: aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> str:
        text: str = super().construct_scalar(node)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise yaml.YAMLError(
                f"line {node.start_mark.line + 1}: half of a surrogate pair is no character; write text"
            ) from None
        return text

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
        return super().construct_mapping(node, deep)
