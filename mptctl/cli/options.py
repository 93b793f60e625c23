"""Values of options that are lists or pairs in one word."""

from __future__ import annotations

from collections.abc import Sequence

from mptctl.errors import UsageError


def columns_by_role(columns: Sequence[str], roles: Sequence[str]) -> dict[str, str]:
    """The column names by role, from the values ``ROLE=NAME`` of ``--column``; empty where none is given.

    Raises:
        UsageError: a value has no name, or a role that is not one of ``roles``.
    """
    names = {}
    for word in columns:
        role, _, name = word.partition("=")
        if role not in roles or not name:
            raise UsageError(f"--column {word}: write ROLE=NAME, of the roles {', '.join(roles)}")
        names[role] = name
    return names
