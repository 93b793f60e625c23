"""The base of what is read from and written to files as JSON or YAML."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A record of named fields, each with a description; it is frozen, and an unknown field is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_dump_json(self, **how: Any) -> str:
        """As pydantic's; a character that a terminal would obey, or would not show, stands as ``\\uNNNN``.

        So does the first of `##[`, which the runner of a workflow would obey; what is read from it is the
        same.
        """
        text = super().model_dump_json(**how).replace("##[", "\\u0023#[")
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
