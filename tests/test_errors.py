"""What messages are made of: a few of many names, and an exception in one line."""

from __future__ import annotations

import ast

import pytest
import yaml

from mptctl.errors import first_line, one_line, some


@pytest.mark.parametrize(
    ("names", "said"),
    [([], ""), (["a"], "a"), ([1, 2, 3], "1, 2, 3"), (iter("abcdefg"), "a, b, c and 4 more")],
)
def test_some_names_the_first_and_counts_the_rest(names: object, said: str) -> None:
    assert some(names) == said  # type: ignore[arg-type]


def test_the_limit_is_the_callers() -> None:
    assert some("abc", limit=1) == "a and 2 more"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: b: c", "line 1, column 5: mapping values are not allowed here"),
        ("a: \x14", "character 4: special"),
    ],
)
def test_what_yaml_says_names_the_place_and_no_string(text: str, said: str) -> None:
    with pytest.raises(yaml.YAMLError) as error:
        yaml.safe_load(text)
    assert one_line(error.value).startswith(said)


def test_an_exception_in_one_line_is_never_empty() -> None:
    assert one_line(ValueError("a\n  b")) == "a b"
    assert one_line(KeyboardInterrupt()) == "KeyboardInterrupt"
    # As numpy says it of a header that holds a name.
    with pytest.raises(ValueError, match="object at 0x") as malformed:
        ast.literal_eval("{'descr': two}")
    assert one_line(malformed.value) == "malformed node or string on line 1: ast.Name"


def test_the_first_line_leaves_a_librarys_trace_out() -> None:
    assert (
        first_line(RuntimeError("\n  image is cut off  \nException raised from decode_jpeg"))
        == "image is cut off"
    )
    assert first_line(ValueError()) == "ValueError"


def test_what_stands_between_names_can_be_chosen() -> None:
    assert some(["a: x", "b: y"], separator="; ") == "a: x; b: y"
