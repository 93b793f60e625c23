"""What messages are made of: a few of many names, and an exception in one line."""

from __future__ import annotations

import pytest

from mptctl.errors import one_line, some


@pytest.mark.parametrize(
    ("names", "said"),
    [([], ""), (["a"], "a"), ([1, 2, 3], "1, 2, 3"), (iter("abcdefg"), "a, b, c and 4 more")],
)
def test_some_names_the_first_and_counts_the_rest(names: object, said: str) -> None:
    assert some(names) == said  # type: ignore[arg-type]


def test_the_limit_is_the_callers() -> None:
    assert some("abc", limit=1) == "a and 2 more"


def test_an_exception_in_one_line_is_never_empty() -> None:
    assert one_line(ValueError("a\n  b")) == "a b"
    assert one_line(KeyboardInterrupt()) == "KeyboardInterrupt"
