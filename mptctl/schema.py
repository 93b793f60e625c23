"""The base of what is read from and written to files and JSON: frozen, and no field that is not named."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A record of named fields, each with a description; an unknown field is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
