"""What all groups of a recipe have in common: finite numbers, and values that are read by the type of their key."""

from __future__ import annotations

from pydantic import ConfigDict

from mptctl.files.typed import Typed


class Group(Typed):
    """One group of keys of a recipe."""

    model_config = ConfigDict(allow_inf_nan=False)
